"""Replace all names in a scenario without changing the decision.

These texts stay: the words of Kubernetes' API (kinds, effects, operators, phases), amounts, times,
numbers, names in Kubernetes' own domains and podsched's (``kubernetes.io``, ``k8s.io``,
``podsched.io``), and the drivers, attributes and selectors of devices. All others are replaced.

Equal texts get equal replacements. So a node's name is still the value of its host name label,
selectors match the same objects, and the topology domains have the same nodes. The replacements of
each sort (``_SORTS``) keep the alphabetical order of the originals, so nodes are listed in the same
order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from podsched.api.extended_resources import CLASS_RESOURCE_PREFIX
from podsched.framework.nodes import PREFER_AVOID_PODS, normalized_image_name

#: Maps of label keys to values, and of names of resources to amounts.
_LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "annotations"})
_AMOUNTS: Final = frozenset({
    "requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources",
    "disruptedPods",
})  # fmt: skip
#: Amounts of devices, which selectors name.
_OF_DEVICES: Final = frozenset({"capacity", "counters"})
#: Fields whose texts are words of the API, amounts or times.
_WORDS: Final = frozenset({
    "apiVersion", "kind", "operator", "effect", "whenUnsatisfiable", "nodeAffinityPolicy",
    "nodeTaintsPolicy", "restartPolicy", "preemptionPolicy", "phase", "protocol", "type", "status",
    "accessModes", "volumeMode", "volumeBindingMode", "persistentVolumeReclaimPolicy",
    "reclaimPolicy", "deletionTimestamp", "creationTimestamp", "startTime", "minAvailable",
    "maxUnavailable", "maximumVolumeSize", "declaredFeatures", "clusterIP", "defaultingType",
    "sizeLimit", "filterTimeout", "bindingTimeout", "capacity", "imagePullPolicy", "dnsPolicy",
    "unhealthyPodEvictionPolicy", "reason", "disruptionMode",
    # Selectors of devices are texts that name drivers and attributes.
    "expression", "string", "strings", "version", "versions", "matchAttribute",
    "distinctAttribute", "allocationMode", "action",
})  # fmt: skip
_IMAGES: Final = frozenset({"image", "names", "reference"})
#: Names in Kubernetes' own domains, and in podsched's.
_KUBERNETES: Final = re.compile(
    r"(?:[\w.-]*\.)?(?:kubernetes|(?:x-)?k8s|podsched)\.io(?:/.*)?", re.DOTALL
)
#: CSI drivers. Their names are public, and those to which in-tree volumes migrate matter.
_DRIVERS: Final = re.compile(r"[a-z0-9.-]*\bcsi\.[a-z0-9.-]+|pxd\.portworx\.com")
#: Kinds of owners that plugins look at, or that are Kubernetes' own.
_OWNERS: Final = frozenset({
    "ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Node", "PodGroup",
})  # fmt: skip
#: Their groups, beside those in Kubernetes' domains.
_GROUPS: Final = frozenset({"apps", "batch"})
#: Conditions of nodes that are Kubernetes' own.
_CONDITIONS: Final = frozenset({
    "Ready", "NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure",
})  # fmt: skip
_KEPT: Final = re.compile(
    r"[-+]?\d+|\d{4}-\d\d-\d\dT[\d:.]+Z|cpu|memory|ephemeral-storage|pods|podgroups|storage|"
    r"metadata\.name|default|count|0\.0\.0\.0|::|default-scheduler|hugepages-.*|"
    r"attachable-volumes-.*|true|false|"
)
#: The sorts of names; drivers stay. A text of several sorts counts as the first of them.
_SORTS: Final = ("driver", "node", "pod", "namespace", "image", "name")


class Renaming:
    """The replacements of the names of one scenario."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        sorts: dict[str, set[str]] = {sort: set() for sort in _SORTS}
        for sort, text in _found(scenario):
            sorts[sort].add(text)
        self.names: dict[str, str] = {}
        for sort in _SORTS:
            for text in sorted(sorts[sort] - self.names.keys()):
                self.names[text] = self._new(sort, text)
        for obj in (*scenario["objects"], scenario["pod"]):
            self._add_ephemeral_claims(obj)

    def _add_ephemeral_claims(self, obj: Mapping[str, Any]) -> None:
        """Name the claims of ephemeral volumes after their pods and volumes again."""
        if "containers" not in obj.get("spec", {}):
            return
        pod = obj["metadata"]["name"]
        for volume in obj["spec"].get("volumes", ()):
            if "ephemeral" in volume:
                made = f"{self.text(pod)}-{self.text(volume['name'])}"
                self.names[f"{pod}-{volume['name']}"] = made

    def _new(self, sort: str, text: str) -> str:
        if sort == "driver":
            return text
        number = f"{sort}-{len(self.names) + 1:06}"
        if sort == "image":
            return f"{number}:1"
        # An extended resource needs a domain: without one it would be one of Kubernetes' own.
        return f"example.com/{number}" if "/" in text else number

    def scenario(self, scenario: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scenario with the new texts."""
        renamed = {
            "id": "/".join(self.text(part) for part in str(scenario.get("id", "")).split("/")),
            "objects": [_walked(obj, "", self._replace) for obj in scenario["objects"]],
            "pod": _walked(scenario["pod"], "", self._replace),
        }
        if "config" in scenario:
            renamed["config"] = _config(scenario["config"], self._replace)
        return renamed

    def text(self, text: str) -> str:
        """Return the new text for an old one; the old one if it is not replaced."""
        if text.startswith(CLASS_RESOURCE_PREFIX):
            return CLASS_RESOURCE_PREFIX + self.text(text.removeprefix(CLASS_RESOURCE_PREFIX))
        return self.names.get(text, text)

    def _replace(self, field: str, text: str) -> str:
        return self.text(normalized_image_name(text) if field in _IMAGES else text)


Replace = Callable[[str, str], str]


def _walked(value: Any, field: str, replace: Replace) -> Any:
    """Return a manifest, or a part of it in a field, with its texts replaced."""
    if isinstance(value, list):
        # Claims have lists of requests.
        field = "" if field in _AMOUNTS else field
        return [_walked(item, field, replace) for item in value]
    if isinstance(value, str):
        return value if field in _WORDS or _stays(value) else replace(field, value)
    if not isinstance(value, dict):
        return value
    if field == "consumedCapacity" or (
        field in _OF_DEVICES and all(isinstance(amount, dict) for amount in value.values())
    ):
        return value
    if field in _AMOUNTS:
        return {_key(key, replace): amount for key, amount in value.items()}
    if _are_labels(field, value):
        return {
            _key(key, replace): text if _stays(text) else replace("", text)
            for key, text in value.items()
            if key != PREFER_AVOID_PODS  # names controllers within JSON
        }
    if field == "ownerReferences" and not _is_own(value):
        value = {**value, "kind": "Owner", "apiVersion": "example.com/v1"}
    if value.keys() == {"type", "status"} and value["type"] not in _CONDITIONS:
        value = {**value, "type": "Condition"}
    return {key: _walked(item, key, replace) for key, item in value.items()}


def _is_own(owner: Mapping[str, Any]) -> bool:
    """Return whether an owner is of a kind that plugins look at, or Kubernetes' own."""
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return owner.get("kind") in _OWNERS and (group in _GROUPS or _stays(group))


def _are_labels(field: str, value: Mapping[str, Any]) -> bool:
    """Return whether these are labels: a selector, also one of nodes, may have lists of terms."""
    return field in _LABELS and all(isinstance(item, str) for item in value.values())


def _key(key: str, replace: Replace) -> str:
    return key if _stays(key) else replace("", key)


def _stays(text: str) -> bool:
    if text.startswith(CLASS_RESOURCE_PREFIX):
        return False
    return any(pattern.fullmatch(text) for pattern in (_KEPT, _KUBERNETES, _DRIVERS))


def _config(config: Mapping[str, Any], replace: Replace) -> dict[str, Any]:
    """Replace schedulerNames, and the names of objects in the plugins' arguments."""
    profiles = []
    for profile in config.get("profiles") or ():
        changed = dict(profile)
        if name := changed.get("schedulerName"):
            changed["schedulerName"] = name if _stays(name) else replace("", name)
        changed["pluginConfig"] = [
            {**entry, "args": _walked(entry.get("args"), "args", replace)}
            for entry in changed.get("pluginConfig") or ()
        ]
        profiles.append(changed)
    return {**config, "profiles": profiles} if profiles else dict(config)


def _found(scenario: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts to replace, each with its sort; one may come in several sorts."""
    texts: list[tuple[str, str]] = []

    def note(field: str, text: str) -> str:
        if field == "driver":
            texts.append(("driver", text))
        elif field in _IMAGES:
            texts.append(("image", normalized_image_name(text)))
        else:
            name = text.removeprefix(CLASS_RESOURCE_PREFIX)
            texts.append(("namespace" if field == "namespace" else "name", name))
        return text

    for obj in (*scenario["objects"], scenario["pod"]):
        sort = {"Node": "node", "Pod": "pod"}.get(obj.get("kind", ""))
        name = obj["metadata"].get("name", "")
        if sort is not None and not _stays(name):
            yield sort, name
        _walked(obj, "", note)
    if "config" in scenario:
        _config(scenario["config"], note)
    yield from texts
