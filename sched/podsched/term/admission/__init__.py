"""Admission by quota in the leader: which units wait in queues, and which use quota.

- ``units``: what is admitted as one, a PodGroup or a lone pod, read from the cluster
- ``usage`` and ``devices``: what the pods of a unit use, also after a takeover
- ``endings``: which units are evicted, and when they may be admitted again
- ``limits``: how long units may run
- ``histories``: what LocalQueues have used in the past
- ``tallies``: counts and usage by queue, for the queues' statuses
- ``changes``: which changes of objects matter to queues
- ``problems``: why a unit cannot wait in its queue
- ``holds``: quota that is kept for units that wait for their victims
- ``turns``: the units that wait, and whose turn it is
- ``admission``: the queues with their units and their usage, kept current with the cluster
- ``terms``: the flavors that a unit may start on, and its victims

The cycle that decides about the heads of the queues is ``term.cycle.admission_cycle``.
"""
