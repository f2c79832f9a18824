"""The arithmetic of job queues with quota, as in Kueue 0.20: pure functions and values.

Each part uses only those above it:

- ``amounts``: quantities as integers
- ``quota``: trees of cohorts, and what a queue may use; ``shares``: how much each one borrows
- ``objects`` and ``stored``: flavors, ClusterQueues and workloads as values, read from the API's
  objects; ``snapshot``: the queues with what is admitted to them
- ``flavors`` and ``assignment``: which flavors a workload gets; ``partial``: with fewer pods
- ``victims`` and ``fair_victims``: which workloads are preempted for another
- ``order`` and ``pending``: the waiting workloads of a queue in order; ``history``: the past usage
  of a LocalQueue
- ``topology`` and ``domains``: which domains of nodes take pods
- ``cycle``: one round over the heads of all queues
- ``backfill``: when a workload can start later

Amounts are integers: thousandths of a CPU, units of everything else. Times are seconds, passed in.
Non-goals: the API's kinds, and placement on nodes.
"""
