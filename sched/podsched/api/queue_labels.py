"""Labels and annotations of Kueue, by which pods and PodGroups join queues; some of podsched."""

from __future__ import annotations

from typing import Final

#: Labels: the LocalQueue, the WorkloadPriorityClass, and the longest time to run in seconds.
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
QUEUE_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
#: Annotations of ClusterQueues, podsched's own: which units get a reservation in time
#: (``Conservative`` or ``EASY``), the execution time in seconds of units without the label, and the
#: longest of any unit.
BACKFILL: Final = "podsched.io/backfill"
DEFAULT_EXEC_TIME: Final = "podsched.io/default-exec-time-seconds"
LONGEST_EXEC_TIME: Final = "podsched.io/longest-exec-time-seconds"
#: Annotations of PodGroups and pods: the label of a Topology's level, of which one domain takes all
#: pods of a group, or should.
REQUIRED_LEVEL: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_LEVEL: Final = "kueue.x-k8s.io/podset-preferred-topology"
#: Likewise, the label of a level of which one domain takes each slice, and the pods of a slice.
SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
#: Likewise, in place of both, JSON: ``[{"topology": LEVEL, "size": N}, ...]``, the widest first.
SLICE_LAYERS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
#: Likewise, true in ``GO_BOOLS``: nodes of a Topology, whichever.
UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
#: Annotation of pods: those of a group with an equal value get the same flavors.
POD_SET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
#: Label with the name of a pod's group, and annotation with the number of its pods.
QUEUE_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
QUEUE_GROUP_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
#: Annotation of a bound pod, podsched's own: a JSON object with the flavor of each resource.
FLAVORS_ANNOTATION: Final = "podsched.io/flavors"
#: Annotations of a bound pod, podsched's own: the LocalQueue by which its unit was admitted, and
#: the unit's longest time to run then, if it had one. Labels and PodGroups may be others by now.
ADMITTED_QUEUE: Final = "podsched.io/local-queue"
ADMITTED_EXEC_TIME: Final = "podsched.io/max-exec-time-seconds"
#: The annotations by which a bound pod was admitted; it was admitted by no queue if it has none.
ADMISSION_ANNOTATIONS: Final = (FLAVORS_ANNOTATION, ADMITTED_QUEUE, ADMITTED_EXEC_TIME)
#: Annotation of Jobs: with how many of their pods they may start.
LEAST_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
