"""A world in which quota decides, too: the leader's own code runs in virtual time.

Whenever pods are scheduled, all that waits in the cluster has its turn, and victims are gone soon.
The world gets what a run has changed: nodes of pods, claims and volumes, and that victims are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from podsched.api.kinds import kind_of
from podsched.api.objects import (
    AnyObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
)
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.world import World
from podsched.config.load import SchedulerConfiguration
from podsched.framework.plugin import PluginFactory
from podsched.framework.pods import PodInfo
from podsched.lab.replay.queue_changes import play_new_pods

#: Kinds of objects that scheduling writes, beside pods.
_WRITTEN = (ResourceClaim, PersistentVolumeClaim, PersistentVolume)
_PREEMPTED = "it got a node, and was preempted later"


class QueueWorld(World):
    """See the module."""

    _config: SchedulerConfiguration
    _plugins: Mapping[str, PluginFactory]
    #: Objects that do not change here.
    _others: Sequence[AnyObject]
    #: By uid, the pods that got a node here, as the leader has written them.
    _bound: dict[str, Pod]

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[AnyObject],
        config: SchedulerConfiguration,
        plugins: Mapping[str, PluginFactory],
    ) -> Self:
        """See ``World``."""
        objects = list(objects)
        made = super().of_objects(objects, config, plugins)
        made._config, made._plugins, made._bound = config, plugins, {}
        made._others = [one for one in objects if not isinstance(one, (Pod, Node, *_WRITTEN))]
        return made

    def waiting_with(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return none, as all that waits has its turn anyway."""
        return []

    def schedule(self, pods: Sequence[PodInfo], *, preempt: bool = True) -> list[Outcome]:
        """Schedule pods beside all others that wait, which may preempt as in the cluster."""
        there = {pod.uid: pod for pod in self.pods()}
        # Others were placed when earlier pods were scheduled, and may have been preempted since.
        new = {pod.uid: pod for pod in pods if pod.uid in there and not self.has_node(pod)}
        objects = [*self._others, *self.cluster.list("Node")]
        objects += [item for kind in _WRITTEN for item in self.cluster.list(kind_of(kind()).name)]
        objects += [self._bound.get(uid, pod.pod) for uid, pod in there.items() if uid not in new]
        asked = [pod.pod for pod in new.values()]
        forecast, left = play_new_pods(objects, asked, self._config, self._plugins)
        by_key = {pod.key: pod for pod in there.values()}
        outcomes = {
            pod.uid: Outcome(
                pod, one.node, one.message, victims=tuple(by_key[key] for key in one.victims)
            )
            for pod, one in zip(new.values(), forecast.decisions, strict=True)
        }
        self._take_over(there, left)
        for pod in pods:
            if pod.uid in there:
                outcomes.setdefault(pod.uid, Outcome(pod, pod.node_name))
        return [outcomes.get(pod.uid) or Outcome(pod, message=_PREEMPTED) for pod in pods]

    def _take_over(self, there: Mapping[str, PodInfo], left: Sequence[AnyObject]) -> None:
        pods = {item.metadata.uid: item for item in left if isinstance(item, Pod)}
        for uid, pod in there.items():
            if pod.node_name and uid not in pods:
                self.changes.remove(pod)
        with self.changes.part() as changes:
            for item in left:
                kind = kind_of(item).name
                where = item.metadata.namespace, item.metadata.name
                if isinstance(item, _WRITTEN) and self.cluster.get(kind, *where) != item:
                    changes.put(kind, item)
            for uid, pod in there.items():
                if (stored := pods.get(uid)) and stored.spec.node_name and not self.has_node(pod):
                    self._bound[uid] = stored
                    changes.assume(pod, stored.spec.node_name)
