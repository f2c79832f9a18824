"""The objects of a queue case, read from JSON.

Quantities are strings as in Kubernetes; ``usage`` has amounts keyed "flavor/resource"; times are
seconds from now, and an absent creation is the earliest. A missing part raises KeyError or BadCase,
a wrong type BadCase, ManifestError or ParseError, a wrong selector SelectorError, an invalid
quantity QuantityError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import json_format

from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.api.objects import LabelSelector, Taint, Toleration
from podsched.api.selectors import Requirement, compile_selector, requirement
from podsched.queues.amounts import amount
from podsched.queues.objects import PodSet, Workload
from podsched.queues.order import queue_time
from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort, read_flavor
from podsched.queues.topology import Topology, TopologyNode, TopologyPods, TopologyRequest

Case = Mapping[str, Any]

_JOB_UID = "kueue.x-k8s.io/job-uid"
_BOOST = "kueue.x-k8s.io/priority-boost"


class BadCase(ValueError):
    """The case lacks a part, or a part is wrong: a fault of its author."""


def gate(case: Case, name: str, *, default: bool) -> bool:
    """Whether a feature gate of Kueue is on in a case."""
    return bool(case.get("config", {}).get("featureGates", {}).get(name, default))


def read_snapshot(case: Case) -> Snapshot:
    """Return the queues of a case, with the usage and the reserved workloads that it names."""
    snapshot = Snapshot(
        [read_cluster_queue(_cluster_queue(one)) for one in case.get("clusterQueues", ())],
        [read_cohort(_cohort(one)) for one in case.get("cohorts", ())],
        [read_flavor(_stored("ResourceFlavor", one, one)) for one in case.get("flavors", ())],
    )
    for queue, usage in case.get("usage", {}).items():
        snapshot.add_usage(_known(snapshot, queue), read_amounts(usage))
    for one in case.get("workloads", ()):
        if "reserved" in one:
            workload = read_workload(case, one)
            _known(snapshot, workload.queue)
            snapshot.add(workload)
    return snapshot


def _known(snapshot: Snapshot, queue: str) -> str:
    if queue not in snapshot.queues:
        raise BadCase(f"no ClusterQueue {queue!r}")
    return queue


def read_amounts(written: Mapping[str, int]) -> dict[FlavorResource, int]:
    """Return amounts keyed "flavor/resource"."""
    amounts = {}
    for key, number in written.items():
        flavor, slash, resource = key.partition("/")
        if not slash or not isinstance(number, int):
            raise BadCase(f"{key!r}: {number!r} is not an amount of flavor/resource")
        amounts[FlavorResource(flavor, resource)] = number
    return amounts


def write_amounts(amounts: Mapping[FlavorResource, int]) -> dict[str, int]:
    """Return amounts keyed "flavor/resource", as in a case."""
    return {f"{key.flavor}/{key.resource}": number for key, number in amounts.items()}


def _stored(kind: str, written: Mapping[str, Any], spec: Mapping[str, Any]) -> Any:
    """Return an object as it is stored."""
    version = KINDS[kind].api_version
    named = {"apiVersion": version, "kind": kind, "metadata": {"name": written["name"]}}
    return from_manifest({**named, "spec": spec}).message


def _cohort(written: Mapping[str, Any]) -> Any:
    return _stored("Cohort", written, {"parentName": written.get("parent"), **_quotas(written)})


def _cluster_queue(written: Mapping[str, Any]) -> Any:
    same = ("queueingStrategy", "flavorFungibility", "preemption")
    spec = {"cohortName": written.get("cohort"), **{name: written.get(name) for name in same}}
    return _stored("ClusterQueue", written, spec | _quotas(written))


def _quotas(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quotas and the weight of a ClusterQueue or Cohort, as a part of its spec."""
    groups = [
        {
            "coveredResources": [one["name"] for flavor in group for one in flavor["resources"]],
            "flavors": [
                {"name": flavor["flavor"], "resources": list(map(_quota, flavor["resources"]))}
                for flavor in group
            ],
        }
        for group in written.get("resourceGroups", ())
    ]
    return {"resourceGroups": groups, "fairSharing": {"weight": str(written.get("fairWeight", 1))}}


def _quota(written: Mapping[str, Any]) -> dict[str, str]:
    limits = ("borrowingLimit", "lendingLimit")
    found = {name: str(written[name]) for name in limits if written.get(name) is not None}
    return {"name": written["name"], "nominalQuota": str(written["nominal"]), **found}


def _tolerations(written: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(Toleration(**one) for one in written.get("tolerations", ()))


def read_pod_sets(case: Case, written: Mapping[str, Any]) -> tuple[PodSet, ...]:
    """Return the pod sets of a workload, without pods that need no quota any more."""
    done = {}
    if gate(case, "ReclaimablePods", default=True):
        done = {one["name"]: one["count"] for one in written.get("reclaimablePods", ())}
    return tuple(
        PodSet(
            one["name"],
            max(0, one["count"] - done.get(one["name"], 0)),
            _requests(one),
            one.get("minCount") if gate(case, "PartialAdmission", default=True) else None,
            (one.get("topology") or {}).get("podSetGroup"),
            one.get("nodeSelector", {}),
            _affinity(one),
            _tolerations(one),
        )
        for one in written["podSets"]
    )


def _affinity(pod_set: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    return tuple(
        tuple(_requirements(term.get("matchExpressions", ())))
        for term in pod_set.get("requiredNodeAffinity", ())
    )


def _requests(pod_set: Mapping[str, Any]) -> dict[str, int]:
    requests = pod_set.get("requestsPerPod", {})
    return {name: amount(name, str(written)) for name, written in requests.items()}


def _requirements(expressions: Iterable[Mapping[str, Any]]) -> Iterable[Requirement]:
    for one in expressions:
        yield requirement(one["key"], one["operator"], tuple(one.get("values", ())))


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a namespaceSelector matches labels: null matches nothing, {} everything."""
    read = None if selector is None else json_format.ParseDict(dict(selector), LabelSelector())
    return compile_selector(read).matches(labels)


def key_of(written: Mapping[str, Any]) -> str:
    """Return "namespace/name", or the name without a namespace."""
    namespace = written.get("namespace")
    return f"{namespace}/{written['name']}" if namespace else str(written["name"])


def _boost(written: Mapping[str, Any]) -> int:
    """Return the number that an annotation adds to the priority; 0 if it is not a number."""
    try:
        return int(written.get("annotations", {}).get(_BOOST, "0"))
    except ValueError:
        return 0


def read_workload(case: Case, written: Mapping[str, Any]) -> Workload:
    """Return a workload with its reserved usage, if any."""
    reserved = written.get("reserved") or {}
    usage: dict[FlavorResource, int] = {}
    for pods in reserved.get("podSets", ()):
        for resource, flavor in pods["flavors"].items():
            key = FlavorResource(flavor, resource)
            more = amount(resource, str(pods["usage"].get(resource, 0)))
            usage[key] = usage.get(key, 0) + more
    boost = _boost(written) if gate(case, "PriorityBoost", default=False) else 0
    conditions = {one["type"]: one for one in written.get("conditions", ())}
    evicted = conditions.get("Evicted")
    if evicted is not None and evicted["status"] != "True":
        evicted = None
    past = written.get("localQueueUsage")
    return Workload(
        key=key_of(written),
        pod_sets=read_pod_sets(case, written) if "podSets" in written else (),
        queue=reserved.get("clusterQueue", written.get("clusterQueue", "")),
        uid=written.get("uid", ""),
        job_uid=written.get("labels", {}).get(_JOB_UID, ""),
        priority=written.get("priority", 0) + boost,
        queued_at=queue_time(
            written.get("createdAt", float("-inf")),
            evicted and evicted.get("reason"),
            evicted["lastTransitionTime"] if evicted else 0,
            by_creation=case.get("config", {}).get("podsReadyRequeuingTimestamp") == "Creation",
        ),
        local_queue_usage=past if gate(case, "AdmissionFairSharing", default=False) else None,
        reserved_at=reserved.get("at"),
        evicted=evicted is not None,
        gated=bool(written.get("preemptionGates"))
        and gate(case, "MultiKueueOrchestratedPreemption", default=False),
        usage=usage,
    )


def read_topology(case: Case) -> Topology:
    """Return the nodes of a case that match the flavor and take pods, in their domains."""
    wanted = case.get("flavorNodeLabels", {}).items()
    nodes = (
        TopologyNode(
            node["labels"],
            {name: amount(name, str(free)) for name, free in node["allocatable"].items()},
            tuple(Taint(**taint) for taint in node.get("taints", ())),
        )
        for node in case["nodes"]
        if not node.get("unschedulable")
        and all(node["labels"].get(key) == value for key, value in wanted)
    )
    if not case["levels"]:
        raise BadCase("a topology without levels")
    return Topology("default", case["levels"], nodes)


def read_topology_pods(written: Mapping[str, Any]) -> TopologyPods:
    """Return a pod set for which topology domains are to be found."""
    return TopologyPods(
        written["name"],
        written["count"],
        written["requestAmountsPerPod"],
        _topology_request(written.get("topologyRequest") or {}),
        written.get("podSetGroupName"),
        written.get("nodeSelector", {}),
        _affinity(written),
        _tolerations(written),
    )


def _topology_request(written: Mapping[str, Any]) -> TopologyRequest:
    slices = tuple(
        (one["topology"], one["size"])
        for one in written.get("podsetSliceRequiredTopologyConstraints", ())
    )
    outer = written.get("podSetSliceRequiredTopology")
    if outer is not None and not slices:
        slices = ((outer, written.get("podSetSliceSize", 0)),)
    return TopologyRequest(written.get("required"), written.get("preferred"), slices)
