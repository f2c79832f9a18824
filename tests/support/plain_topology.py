"""Topology spread and inter-pod affinity read plainly: manifests in, one node after the other.

Written for tests from the rules of kube-scheduler v1.36, pod by pod and node by node, sharing no
code with the plugins. Nodes, pods, namespaces and services are dictionaries as in manifests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

SPREAD = "node(s) didn't match pod topology spread constraints"
NO_LABEL = SPREAD + " (missing required label)"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass
class Scene:
    """What there is; ``placed`` are (pod, node name)."""

    nodes: list[Manifest]
    placed: list[tuple[Manifest, str]]
    namespaces: dict[str, dict[str, str]]
    services: list[Manifest] = field(default_factory=list)

    def on(self, node: Manifest) -> list[Manifest]:
        return [pod for pod, name in self.placed if name == node["metadata"]["name"]]


#: Pods that come (1) and go (-1).
Trial = Sequence[tuple[Manifest, int]]


def labels_of(obj: Manifest) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels", {})
    return labels


def namespace_of(pod: Manifest) -> str:
    return str(pod["metadata"]["namespace"])


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A label selector; None selects nothing."""
    if selector is None:
        return False
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", ()):
        key, values = expression["key"], expression.get("values", ())
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not holds[expression["operator"]]:
            return False
    return True


# ---------------------------------------------------------------------------------- spread


def constraints_of(pod: Manifest, scene: Scene, action: str) -> list[Manifest]:
    """The pod's own constraints or, without any, the system defaults, of one action."""
    own = pod["spec"].get("topologySpreadConstraints")
    if own:
        found = []
        for constraint in own:
            if constraint["whenUnsatisfiable"] != action:
                continue
            selector = constraint.get("labelSelector")
            keys = [k for k in constraint.get("matchLabelKeys", ()) if k in labels_of(pod)]
            if selector is not None and keys:
                more = {"matchLabels": {k: labels_of(pod)[k] for k in keys}}
                expressions = list(selector.get("matchExpressions", ()))
                for key, value in selector.get("matchLabels", {}).items():
                    expressions.append({"key": key, "operator": "In", "values": [value]})
                selector = {**more, "matchExpressions": expressions}
            found.append({**constraint, "labelSelector": selector})
        return found
    if action == "DoNotSchedule":
        return []
    wanted: dict[str, str] = {}
    for service in scene.services:
        if namespace_of(service) == namespace_of(pod):
            selector = service["spec"].get("selector", {})
            if all(labels_of(pod).get(k) == v for k, v in selector.items()):
                wanted.update(selector)
    if not wanted:
        return []
    return [
        {"topologyKey": key, "maxSkew": skew, "labelSelector": {"matchLabels": wanted}}
        for key, skew in ((HOSTNAME, 3), (ZONE, 5))
    ]


def takes_part(constraint: Manifest, pod: Manifest, node: Manifest) -> bool:
    """Node inclusion policies, for pods with a nodeSelector and without tolerations."""
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        selector = pod["spec"].get("nodeSelector", {})
        if any(labels_of(node).get(k) != v for k, v in selector.items()):
            return False
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor":
        taints = node["spec"].get("taints", ())
        return not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in taints)
    return True


def matching(constraint: Manifest, pod: Manifest, others: Iterable[Manifest]) -> int:
    """How many of the others count: running, of the pod's namespace, selected by something."""
    selector = constraint["labelSelector"]
    if selector is not None and not any(selector.values()):
        return 0
    return sum(
        namespace_of(other) == namespace_of(pod)
        and "deletionTimestamp" not in other["metadata"]
        and selects(selector, labels_of(other))
        for other in others
    )


def has_keys(node: Manifest, constraints: Sequence[Manifest]) -> bool:
    return all(c["topologyKey"] in labels_of(node) for c in constraints)


def spread_reason(pod: Manifest, node: Manifest, scene: Scene, trial: Trial = ()) -> str:
    """Why PodTopologySpread rejects the node, "" if it does not; the trial is on that node."""
    constraints = constraints_of(pod, scene, "DoNotSchedule")
    for constraint in constraints:
        key = constraint["topologyKey"]
        if key not in labels_of(node):
            return NO_LABEL
        counts: dict[str, int] = {}
        for other in scene.nodes:
            if has_keys(other, constraints) and takes_part(constraint, pod, other):
                domain = labels_of(other)[key]
                count = matching(constraint, pod, scene.on(other))
                counts[domain] = counts.get(domain, 0) + count
        here = labels_of(node)[key]
        if has_keys(node, constraints) and takes_part(constraint, pod, node):
            for changed, sign in trial:
                same = namespace_of(changed) == namespace_of(pod)
                if same and selects(constraint["labelSelector"], labels_of(changed)):
                    counts[here] += sign
        enough = len(counts) >= constraint.get("minDomains", 1)
        least = min(counts.values()) if enough else 0
        own = int(selects(constraint["labelSelector"], labels_of(pod)))
        if counts.get(here, 0) + own - least > constraint["maxSkew"]:
            return SPREAD
    return ""


def spread_scores(pod: Manifest, feasible: list[Manifest], scene: Scene) -> dict[str, int] | None:
    """The normalised scores of PodTopologySpread by node; None when it skips."""
    constraints = constraints_of(pod, scene, "ScheduleAnyway")
    if not constraints:
        return None
    require_all = bool(pod["spec"].get("topologySpreadConstraints"))
    scored = [n for n in feasible if not require_all or has_keys(n, constraints)]
    raw: dict[str, int] = {}
    for node in scored:
        total = 0.0
        for constraint in constraints:
            key = constraint["topologyKey"]
            if key not in labels_of(node):
                continue
            if key == HOSTNAME:
                size = len(scored)
                count = matching(constraint, pod, scene.on(node))
            else:
                size = len({labels_of(n).get(key, "") for n in scored})
                count = sum(
                    matching(constraint, pod, scene.on(other))
                    for other in scene.nodes
                    if labels_of(other).get(key, "") == labels_of(node)[key]
                    and (not require_all or has_keys(other, constraints))
                    and takes_part(constraint, pod, other)
                )
            total += count * math.log(size + 2) + float(constraint["maxSkew"] - 1)
        raw[node["metadata"]["name"]] = math.floor(total + 0.5)
    result = {}
    highest, lowest = max(raw.values(), default=0), min(raw.values(), default=0)
    for node in feasible:
        name = node["metadata"]["name"]
        if name not in raw:
            result[name] = 0
        elif highest == 0:
            result[name] = 100
        else:
            result[name] = 100 * (highest + lowest - raw[name]) // highest
    return result


# ---------------------------------------------------------------------------------- affinity


def terms_of(pod: Manifest, kind: str, strength: str) -> list[Manifest]:
    found: list[Manifest] = pod["spec"].get("affinity", {}).get(kind, {}).get(strength, [])
    return found


def own_term_means(term: Manifest, owner: Manifest, other: Manifest, scene: Scene) -> bool:
    """Whether a term of the pending pod means another pod."""
    namespaces = set(term.get("namespaces", ()))
    selector = term.get("namespaceSelector")
    if selector is None:
        namespaces = namespaces or {namespace_of(owner)}
        anywhere = False
    else:
        namespaces |= {
            name for name, labels in scene.namespaces.items() if selects(selector, labels)
        }
        anywhere = selects(selector, {})
    in_namespace = anywhere or namespace_of(other) in namespaces
    return in_namespace and selects(term.get("labelSelector"), labels_of(other))


def other_term_means(term: Manifest, owner: Manifest, pod: Manifest, scene: Scene) -> bool:
    """Whether a term of a placed pod means the pending one."""
    selector = term.get("namespaceSelector")
    namespaces = set(term.get("namespaces", ()))
    if selector is None:
        namespaces = namespaces or {namespace_of(owner)}
    labels = scene.namespaces.get(namespace_of(pod), {})
    in_namespace = namespace_of(pod) in namespaces or selects(selector, labels)
    return in_namespace and selects(term.get("labelSelector"), labels_of(pod))


Pairs = dict[tuple[str, str], int]


def count_pairs(scene: Scene, node: Manifest | None, trial: Trial, keys_of: Any) -> Pairs:
    """(key, value) -> the sum over all pods of the keys that ``keys_of(pod)`` gives."""
    pairs: Pairs = {}
    changes: list[tuple[Manifest, Manifest, int]] = []
    for other in scene.nodes:
        changes += [(pod, other, 1) for pod in scene.on(other)]
    if node is not None:
        changes += [(pod, node, sign) for pod, sign in trial]
    for pod, where, sign in changes:
        for key in keys_of(pod):
            if key in labels_of(where):
                pair = (key, labels_of(where)[key])
                pairs[pair] = pairs.get(pair, 0) + sign
    return {pair: count for pair, count in pairs.items() if count}


def affinity_skips(pod: Manifest, scene: Scene) -> bool:
    """Whether InterPodAffinity's Filter has nothing to do for the pod."""
    own = terms_of(pod, "podAffinity", REQUIRED) or terms_of(pod, "podAntiAffinity", REQUIRED)
    return not own and not count_pairs(scene, None, (), lambda p: repelling_keys(p, pod, scene))


def repelling_keys(other: Manifest, pod: Manifest, scene: Scene) -> list[str]:
    return [
        term["topologyKey"]
        for term in terms_of(other, "podAntiAffinity", REQUIRED)
        if other_term_means(term, other, pod, scene)
    ]


def affinity_reason(pod: Manifest, node: Manifest, scene: Scene, trial: Trial = ()) -> str:
    """Why InterPodAffinity rejects the node, "" if it does not; the trial is on that node."""
    near = terms_of(pod, "podAffinity", REQUIRED)
    far = terms_of(pod, "podAntiAffinity", REQUIRED)
    labels = labels_of(node)

    def near_keys(other: Manifest) -> list[str]:
        if near and all(own_term_means(term, pod, other, scene) for term in near):
            return [term["topologyKey"] for term in near]
        return []

    if any(term["topologyKey"] not in labels for term in near):
        return AFFINITY
    pairs = count_pairs(scene, node, trial, near_keys)
    if any((t["topologyKey"], labels[t["topologyKey"]]) not in pairs for t in near) and (
        pairs or not near_keys(pod)
    ):
        return AFFINITY
    pairs = count_pairs(
        scene,
        node,
        trial,
        lambda p: [t["topologyKey"] for t in far if own_term_means(t, pod, p, scene)],
    )
    if any((t["topologyKey"], labels.get(t["topologyKey"])) in pairs for t in far):
        return ANTI_AFFINITY
    pairs = count_pairs(scene, node, trial, lambda p: repelling_keys(p, pod, scene))
    return EXISTING if any(pair in pairs for pair in labels.items()) else ""


def affinity_scores(
    pod: Manifest,
    feasible: list[Manifest],
    scene: Scene,
    hard_weight: int = 1,
    *,
    ignore_preferred: bool = False,
) -> dict[str, int]:
    """The normalised scores of InterPodAffinity by node; all 0 where it skips."""
    preferred = [
        (sign * weighted["weight"], weighted["podAffinityTerm"])
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for weighted in terms_of(pod, kind, PREFERRED)
    ]
    sums: Pairs = {}

    def add(node: Manifest, key: str, weight: int) -> None:
        if key in labels_of(node):
            pair = (key, labels_of(node)[key])
            sums[pair] = sums.get(pair, 0) + weight

    for node in scene.nodes:
        for other in scene.on(node):
            for weight, term in preferred:
                if own_term_means(term, pod, other, scene):
                    add(node, term["topologyKey"], weight)
            if ignore_preferred and not preferred:
                continue
            for term in terms_of(other, "podAffinity", REQUIRED):
                if other_term_means(term, other, pod, scene):
                    add(node, term["topologyKey"], hard_weight)
            for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                for weighted in terms_of(other, kind, PREFERRED):
                    term = weighted["podAffinityTerm"]
                    if other_term_means(term, other, pod, scene):
                        add(node, term["topologyKey"], sign * weighted["weight"])
    raw = {
        node["metadata"]["name"]: sum(sums.get(pair, 0) for pair in labels_of(node).items())
        for node in feasible
    }
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    if low == high:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * ((count - low) / (high - low))) for name, count in raw.items()}
