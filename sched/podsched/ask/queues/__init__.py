"""Questions about queues: who uses how much quota, and why a unit waits in its queue.

A *unit* is admitted as a whole: a single pod or a PodGroup.
"""
