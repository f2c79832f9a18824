"""What several plugins compute over rows: label matching, topology domains, normalised scores."""
