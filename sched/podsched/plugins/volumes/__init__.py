"""Volumes and claims as all volume plugins read them, and in-tree volumes seen as CSI volumes."""
