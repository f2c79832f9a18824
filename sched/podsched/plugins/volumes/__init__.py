"""Functions that all volume plugins use: claims, volumes, and in-tree volumes as CSI volumes."""
