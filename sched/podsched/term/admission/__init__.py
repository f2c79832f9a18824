"""Admission by quota in the leader: which units wait in queues, and which use quota.

- ``units``: what is admitted as one, a PodGroup or a lone pod, read from the cluster
- ``usage``: which flavors the pods of a unit use, also after a takeover
- ``admission``: the queues with their waiting units and their usage, kept current with the cluster

The cycle that decides about the heads of the queues is ``term.cycle.admission_cycle``.
"""
