"""The scheduler's picture of the cluster: pod classes, nodes as columns, forks, other objects.

``Cache`` takes the informers' events and the scheduler's own assumptions; ``Columns`` is what
plugins read. Everything here is synchronous and free of I/O, clock and chance.
"""
