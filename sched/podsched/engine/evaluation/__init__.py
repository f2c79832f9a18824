"""Where a pod can run, and how good each node is: pure functions and objects over columns."""
