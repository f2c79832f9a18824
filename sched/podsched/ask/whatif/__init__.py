"""Questions about changes (pods added, nodes added or drained), answered on a copy in memory.

The decisions are made by the code of a replica. Nothing is written.
"""
