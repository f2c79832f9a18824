"""Histories that are made by hand, for the checker."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import (
    AnyObject,
    Event,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
)
from podsched.lab.chaos.history import VERSION, History, history_of
from podsched.lab.chaos.records import (
    Begin,
    Call,
    Change,
    End,
    FaultMark,
    FencedWrite,
    Outcome,
    Record,
    Revision,
    Settled,
)

LOCK = "kube-system/kube-scheduler"
_REQUIRED = "required_during_scheduling_ignored_during_execution"

Requirements = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Key, operator and values."""


def node_of(name: str, *, unschedulable: bool = False, **fields: Any) -> Node:
    """A ready node; fields: allocatable, labels, taints."""
    node = Node()
    node.metadata.name = name
    node.metadata.labels.update(fields.pop("labels", {}))
    node.status.allocatable.update(fields.pop("allocatable", {}))
    node.spec.unschedulable = unschedulable
    node.status.conditions.add(type="Ready", status="True")
    for key, value, effect in fields.pop("taints", ()):
        node.spec.taints.add(key=key, value=value, effect=effect)
    assert not fields
    return node


def change(pod: Pod, **fields: Any) -> Pod:
    """A copy of a pod in which each field is as it is said."""
    made = Pod()
    made.CopyFrom(pod)
    for name, value in fields.items():
        _SET[name](made, value)
    return made


def _set_requests(pod: Pod, amounts: dict[str, str]) -> None:
    if not pod.spec.containers:
        pod.spec.containers.add(name="main")
    requests = pod.spec.containers[0].resources.requests
    requests.clear()
    requests.update(amounts)


def _set_ports(pod: Pod, ports: tuple[tuple[str, str, int], ...]) -> None:
    for address, protocol, number in ports:
        pod.spec.containers[0].ports.add(host_ip=address, protocol=protocol, host_port=number)


def _set_claims(pod: Pod, claims: tuple[str, ...]) -> None:
    for name in claims:
        pod.spec.volumes.add(name=name).persistent_volume_claim.claim_name = name


def _set_affinity(pod: Pod, terms: tuple[tuple[str, Requirements], ...]) -> None:
    """Each term: the field of its requirements, and they."""
    selector = getattr(pod.spec.affinity.node_affinity, _REQUIRED)
    selector.SetInParent()
    for field, requirements in terms:
        term = selector.node_selector_terms.add()
        for key, operator, values in requirements:
            getattr(term, field).add(key=key, operator=operator, values=values)


def _set_tolerations(pod: Pod, tolerations: tuple[tuple[str, str, str, str], ...]) -> None:
    for key, operator, value, effect in tolerations:
        pod.spec.tolerations.add(key=key, operator=operator, value=value, effect=effect)


def _set_condition(pod: Pod, type_: str, status: str, reason: str = "") -> None:
    kept = [one for one in pod.status.conditions if one.type != type_]
    del pod.status.conditions[:]
    pod.status.conditions.extend(kept)
    pod.status.conditions.add(type=type_, status=status, reason=reason)


_SET: dict[str, Any] = {
    "node": lambda pod, name: setattr(pod.spec, "node_name", name),
    "nominated": lambda pod, name: setattr(pod.status, "nominated_node_name", name),
    "priority": lambda pod, value: setattr(pod.spec, "priority", value),
    "requests": _set_requests,
    "ports": _set_ports,
    "claims": _set_claims,
    "labels": lambda pod, labels: pod.metadata.labels.update(labels),
    "selector": lambda pod, labels: pod.spec.node_selector.update(labels),
    "affinity": _set_affinity,
    "tolerations": _set_tolerations,
    "group": lambda pod, name: setattr(pod.spec.scheduling_group, "pod_group_name", name),
    "gated": lambda pod, _: pod.spec.scheduling_gates.add(name="gate"),
    "plain": lambda pod, _: pod.spec.topology_spread_constraints.add(max_skew=1),
    "phase": lambda pod, phase: setattr(pod.status, "phase", phase),
    "ready": lambda pod, ready: _set_condition(pod, "Ready", str(bool(ready))),
    "deleting": lambda pod, _: pod.metadata.deletion_timestamp.FromSeconds(1),
    "disrupted": lambda pod, reason: _set_condition(pod, "DisruptionTarget", "True", reason),
}


class Story:
    """A history, told step by step; each step takes 10 ms and, in etcd, one revision."""

    def __init__(self, within: float = 30.0) -> None:
        self._records: list[Record] = [Begin(version=VERSION, seed=7, within=within)]
        self._now = 0.0
        self._revision = 100
        self._pods: dict[str, tuple[str, Pod]] = {}

    @property
    def history(self) -> History:
        return history_of(self._records)

    @property
    def records(self) -> list[Record]:
        return self._records

    @property
    def revision(self) -> int:
        return self._revision

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def add(self, record: Record) -> None:
        self._records.append(record)

    def stored(self, *changes: Change) -> int:
        """A revision; returns its number."""
        self._now += 0.01
        self._revision += 1
        self.add(Revision(at=self._now, number=self._revision, changes=changes))
        return self._revision

    # ------------------------------------------------------------------ objects

    def node(self, name: str = "node-1", cpu: str = "4", **fields: Any) -> None:
        room = {"cpu": cpu, "pods": "110"}
        self._object(f"nodes/{name}", name, node_of(name, allocatable=room, **fields))

    def _object(self, key: str, uid: str, item: AnyObject) -> None:
        self.stored(Change(key=key, uid=uid, object=item))

    def pod(
        self, name: str, cpu: str = "1", *, outcome: Outcome = Outcome.OK, **fields: Any
    ) -> str:
        """A pod that a client creates, and is told of that; returns its uid."""
        uid = f"uid-{name}-{self._revision}"
        pod = Pod()
        pod.metadata.name, pod.metadata.namespace = name, "default"
        pod.spec.scheduler_name = "default-scheduler"
        self._pods[name] = (uid, change(pod, requests={"cpu": cpu}, **fields))
        self.stored(self._change(name))
        self.call("create", name, uid=uid, outcome=outcome)
        return uid

    def becomes(self, name: str, **fields: Any) -> int:
        """A pod changes; returns the revision."""
        uid, pod = self._pods[name]
        self._pods[name] = (uid, change(pod, **fields))
        return self.stored(self._change(name))

    def gone(self, name: str) -> None:
        self._pods.pop(name)
        self.stored(Change(key=f"pods/default/{name}", deleted=True))

    def _change(self, name: str) -> Change:
        uid, pod = self._pods[name]
        return Change(key=f"pods/default/{name}", uid=uid, object=pod)

    def claim(self, name: str, *, exclusive: bool) -> None:
        claim = PersistentVolumeClaim()
        claim.metadata.name, claim.metadata.namespace = name, "default"
        claim.spec.access_modes.append("ReadWriteOncePod" if exclusive else "ReadWriteOnce")
        self._object(f"persistentvolumeclaims/default/{name}", name, claim)

    def allocated(self, name: str, *devices: str, users: tuple[str, ...] = ()) -> None:
        """A ResourceClaim has devices, and is reserved for pods; without devices: for none."""
        claim = ResourceClaim()
        claim.metadata.name, claim.metadata.namespace = name, "default"
        for device in devices:
            claim.status.allocation.devices.results.add(driver="gpu", pool="n1", device=device)
        for user in users:
            uid, _ = self._pods.get(user, ("gone", None))
            claim.status.reserved_for.add(resource="pods", name=user, uid=uid)
        self._object(f"resourceclaims/default/{name}", name, claim)

    def evicts(self, name: str, *, desired: int) -> None:
        """An eviction that the budget of pods with app=web counts."""
        uid, pod = self._pods[name]
        self._pods[name] = (uid, change(pod, deleting=True))
        budget = PodDisruptionBudget()
        budget.metadata.name, budget.metadata.namespace = "web", "default"
        budget.spec.selector.match_labels["app"] = "web"
        budget.status.desired_healthy = desired
        budget.status.disrupted_pods[name].FromSeconds(1)
        key = "poddisruptionbudgets/default/web"
        self.stored(self._change(name), Change(key=key, uid="web", object=budget))

    def preempted_event(self, victim: str, preemptor: str) -> None:
        event = Event(reason="Preempted", message=f"Preempted by pod {preemptor} on node n")
        event.metadata.name, event.metadata.namespace = "e", "default"
        event.involved_object.uid = victim
        self._object("events/default/e", "e", event)

    # ------------------------------------------------------------------ everything else

    def call(self, verb: str, name: str, *, uid: str = "", outcome: Outcome = Outcome.OK) -> None:
        self._now += 0.01
        self.add(
            Call(
                client="c",
                verb=verb,
                key=f"pods/default/{name}",
                uid=uid,
                invoked=self._now - 0.01,
                answered=self._now,
                outcome=outcome,
                revision=self._revision,
            )
        )

    def term(self, holder: str = "s0_1") -> int:
        """A replica acquires the lock; returns the term."""
        return self.stored(Change(key=f"terms/{LOCK}", holder=holder))

    def released(self) -> None:
        self.stored(Change(key=f"terms/{LOCK}", deleted=True))

    def wrote(
        self, term: int, pod: str, *revisions: int, method: str = "BindPods", **fields: Any
    ) -> None:
        """An API server says what it wrote for a term; without revisions: no client heard of it."""
        self.add(
            FencedWrite(
                at=self._now,
                server="apiserver-0",
                method=method,
                lock=LOCK,
                term=term,
                pods=(f"default/{pod}",),
                revisions=revisions,
                unheard=not revisions,
                **fields,
            )
        )

    def fault(self, seconds: float = 1.0) -> None:
        self.add(FaultMark(at=self._now, number=1, name="kill-leader", what="SIGKILL"))
        self._now += seconds
        self.add(FaultMark(at=self._now, number=1, name="kill-leader", ends=True))

    def settles(self, **assumed: int) -> None:
        self.add(Settled(at=self._now, assumed=assumed))

    def ends(self, **fields: Any) -> None:
        self.add(End(at=self._now, **fields))


def good_story() -> Story:
    """Pods come, are bound, change leaders, are preempted, evicted and deleted: all as promised."""
    story = Story()
    story.node("node-1", cpu="4")
    story.node("node-2", cpu="4")
    first = story.term("s0_1")
    uid = story.pod("web", priority=10, labels={"app": "web"})
    story.wrote(first, "web", story.becomes("web", node="node-1", ready=True))
    story.pod("other", labels={"app": "web"})
    story.wrote(first, "other", story.becomes("other", node="node-2", ready=True))
    story.fault()
    second = story.term("s1_2")
    story.claim("data", exclusive=True)
    story.pod("low", cpu="3", claims=("data",))
    story.wrote(second, "low", story.becomes("low", node="node-1"))
    high = story.pod("high", cpu="3", priority=100, ports=(("0.0.0.0", "TCP", 80),))
    victim = story._pods["low"][0]
    story.wrote(
        second, "low", story.becomes("low", deleting=True, disrupted="PreemptionByScheduler")
    )
    story.preempted_event(victim, high)
    story.gone("low")
    story.wrote(second, "high", story.becomes("high", node="node-1"))
    story.allocated("gpu", "gpu-0", "gpu-1", users=("high",))
    story.allocated("gpu")
    story.allocated("next", "gpu-1", users=("high",))
    story.evicts("other", desired=1)
    story.call("evict", "other")
    story.gone("other")
    story.call("delete", "web", uid=uid)
    story.gone("web")
    story.wait(40)
    story.settles(s0=0, s1=0)
    story.ends(exit_codes={"scheduler-0": 0})
    return story
