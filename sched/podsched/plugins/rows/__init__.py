"""Functions over rows that several plugins use: label matching, topology domains, normalisation."""
