"""Admission by quota in the leader: which units wait in queues, and which use quota.

| word | meaning |
| --- | --- |
| unit | a PodGroup, or a pod without one: Kueue's Workload |
| workload | what a unit asks for, or uses, as a value for the arithmetic of ``podsched.queues`` |
| head | the unit of a ClusterQueue that is tried next |
| held pod | a pod of a unit that has a node, bound or assumed |
| hold | quota that is kept for a unit until its victims are gone |
| terms | flavors on which a unit may start, with their nodes, and the victims that this needs |
| reservation | the promise that a unit starts at a time; nodes and quota are kept for it |
| sticky | a preemptor that stays its queue's head until it has started (as in Kueue) |
| shape | what units have in common that are admitted, or not, for the same reasons |
| hopeless | a shape of which a unit was tried in vain; until what it lacks is free, none is |

- ``books``: what all parts share: the units, the quotas and their usage, and the time
- ``units``: PodGroups and lone pods, which are admitted as a whole
- ``workloads``: what units ask for, and what they use
- ``usage`` and ``devices``: the quota that a pod uses, known also after a takeover
- ``endings`` and ``limits``: why and when units are evicted
- ``requeuing`` and ``places``: when they may be admitted again, and their place in the queue
- ``histories``: the past usage of LocalQueues
- ``tallies``: counts and usage by queue, for the queues' statuses
- ``changes``: the changes of objects that matter to queues
- ``problems``: why a unit cannot wait in its queue
- ``holds``: quota that is kept for units that wait for their victims
- ``turns``: the waiting units, and the heads that are tried next
- ``queued_pods``: the pods of queues, each counted for its unit
- ``pod_usage``: the quota that they use, added to their units and to the quotas' usage
- ``gate``: the PreEnqueue plugin that keeps these pods out of activeQ
- ``admission``: the queues with their units and usage, kept current with the cluster
- ``terms``: the flavors that a unit may start on, and its victims
- ``reservations``: starts that are promised to units in ClusterQueues with backfill
- ``eligibility``: which units may be promised one
- ``reservation_text``: the annotation that has a reservation
- ``withdrawals``: why a promised start cannot be kept
- ``outlook`` and ``unit_ends``: what is expected to run, and until when
- ``timetable`` and ``node_room``: when a unit can start beside it
- ``delays``: which promised start keeps a unit from starting now
- ``placeholders``, ``reserved_devices`` and ``reserved_ports``: what is kept on nodes

The cycle that decides about the heads of the queues is ``term.cycle.admission_cycle``.
"""
