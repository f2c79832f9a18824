"""Two plugins for podsched: one over columns, one node by node."""
