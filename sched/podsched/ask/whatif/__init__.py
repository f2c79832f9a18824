"""What would happen if: pods added, nodes added or emptied, on a copy of the cluster in memory.

The decisions are those of a replica, made by its own state and decider; nothing is written
anywhere.
"""
