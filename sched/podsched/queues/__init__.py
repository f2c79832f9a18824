"""Job queues with quota: the arithmetic of Kueue 0.20, pure.

From the ground up:

- ``quota``: trees of cohorts, what a queue may use; ``shares``: who borrows most
- ``objects`` and ``snapshot``: what is decided upon
- ``flavors`` and ``assignment``: which flavor a workload gets; ``partial``: with fewer pods
- ``victims`` and ``fair_victims``: who makes room
- ``order`` and ``pending``: whose turn it is in a queue; ``history``: what a LocalQueue has used
- ``topology`` and ``domains``: which domains of nodes take pods
- ``cycle``: one round over the heads of all queues

Amounts are integers: thousandths of a CPU, units of everything else. Times are seconds, passed in.
Non-goals: the kinds of the API, and placement on nodes.
"""
