"""General tools that import nothing of podsched."""
