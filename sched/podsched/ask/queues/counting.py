"""Fill the queues from a cluster's objects, with the code of the leader; find a queue's pods."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, object_key
from podsched.api.pod_groups import group_key
from podsched.api.queue_labels import QUEUE_NAME
from podsched.cache.cache import Cache
from podsched.config.load import SchedulerConfiguration
from podsched.framework.local_queues import DEFAULT_QUEUE
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import PluginFactory
from podsched.framework.pod_groups import stored_group
from podsched.term.admission.admission import Admission
from podsched.term.admission.changes import check_readable
from podsched.term.state import build_state
from podsched.v1 import objects_pb2 as v1


def admission_of(
    objects: Iterable[AnyObject],
    config: SchedulerConfiguration,
    plugins: Mapping[str, PluginFactory],
) -> Admission:
    """Return the queues of a cluster; past usage is read from the objects' status.

    ``objects``: each with a uid. The pods of the profiles wait in the queues. Raises QuantityError,
    or PluginError for a plugin that cannot be created.
    """
    state = build_state(config, plugins, seed=0)
    deque(fill(state.admission, state.cache, objects), maxlen=0)
    return state.admission


def fill(
    admission: Admission,
    cache: Cache,
    objects: Iterable[AnyObject | None],
    *,
    skips_unusable: bool = False,
) -> Iterator[None]:
    """Put objects into an empty cache and empty queues, in short steps between the yields.

    A None among the objects only yields. ``skips_unusable``: objects that cannot be read are left
    out, as by the scheduler (``term.set_aside``); otherwise this raises QuantityError.
    """
    for obj in objects:
        if obj is not None:
            kind = kind_of(obj).name
            try:
                check_readable(kind, obj)
                cache.apply(kind, None, obj)
            except ValueError:
                if not skips_unusable:
                    raise
        yield
    yield from admission.refresh(0.0)


def sibling_queues(admission: Admission, key: str) -> Collection[str] | None:
    """Return the LocalQueues, "namespace/name", of a unit's ClusterQueue; None without a queue."""
    unit = admission.units.get(key)
    if unit is None:
        return None
    return {
        object_key(one)
        for one in admission.cluster.list("LocalQueue")
        if one.spec.cluster_queue == unit.queue
    }


def pods_in(
    queues: Collection[str] | None, cluster: ClusterView, pods: Iterable[v1.Pod]
) -> list[v1.Pod]:
    """Return the pods whose labels, or whose PodGroups, name one of the LocalQueues; None: all."""
    return [pod for pod in pods if queues is None or _local_queue(cluster, pod) in queues]


def _local_queue(cluster: ClusterView, pod: v1.Pod) -> str:
    namespace = pod.metadata.namespace
    of = stored_group(cluster, group_key(pod))
    named = of.metadata.labels.get(QUEUE_NAME, "") if of is not None else ""
    return f"{namespace}/{named or pod.metadata.labels.get(QUEUE_NAME, DEFAULT_QUEUE)}"
