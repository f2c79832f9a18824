"""The Policy file of kube-scheduler v1.16 and before: its fields and their validation.

Sources: ``pkg/scheduler/api/v1/types.go``, ``api/validation/validation.go`` and
``factory/plugins.go`` of kube-scheduler v1.16. As there, keys may be of any case, a list that is
null or missing means the defaults and an empty one means none, and a predicate or priority with an
``argument`` has the name that the file gives it. Unlike there, an unknown field is an error, and
all mistakes are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podsched.config.durations import format_duration
from podsched.config.errors import FieldError, invalid, required
from podsched.config.extenders import Extender, ExtenderManagedResource, ExtenderTLSConfig
from podsched.config.legacy.args import (
    CheckNodeLabelPresenceArgs,
    CheckServiceAffinityArgs,
    NodeLabelPriorityArgs,
    ServiceAntiAffinityArgs,
)
from podsched.config.model import Int64, ListOf, Model, decode_checked, join
from podsched.config.plugin_args import ResourceSpec, UtilizationShapePoint, shape_errors

KIND: Final = "Policy"
API_VERSION: Final = "v1"
#: ``MaxWeight`` of kube-scheduler v1.16: the largest int64 by MaxPriority.
MAX_WEIGHT: Final = (2**63 - 1) // 10
#: The largest weight of a plugin in a profile, an int32.
MAX_PLUGIN_WEIGHT: Final = 2**31 - 1

_NAME: Final = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])")


class PredicateArgument(Model):
    """The argument of a custom predicate; exactly one of the fields is set."""

    service_affinity: CheckServiceAffinityArgs | None = None
    labels_presence: CheckNodeLabelPresenceArgs | None = None


class PredicatePolicy(Model):
    """A predicate to run."""

    name: str = ""
    argument: PredicateArgument | None = None


class CapacityRatioArgument(Model):
    """The shape and resources of a priority by used shares; unlike the plugin's, it needs one."""

    shape: ListOf[UtilizationShapePoint] = ()
    resources: ListOf[ResourceSpec] = ()

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from shape_errors(self.shape, join(path, "shape"))


class PriorityArgument(Model):
    """The argument of a custom priority; exactly one of the fields is set."""

    service_anti_affinity: ServiceAntiAffinityArgs | None = None
    label_preference: NodeLabelPriorityArgs | None = None
    requested_to_capacity_ratio_arguments: CapacityRatioArgument | None = None


class PriorityPolicy(Model):
    """A priority to run, and its weight."""

    name: str = ""
    weight: Int64 = 0
    argument: PriorityArgument | None = None


class LegacyExtender(Extender):
    """An extender in the old spelling."""

    enable_https: bool = False
    http_timeout: Int64 = 0
    """Nanoseconds; 0 means 5 s."""

    def document(self) -> dict[str, Any]:
        """Return the extender as a KubeSchedulerConfiguration has it."""
        plain: dict[str, Any] = self.model_dump(by_alias=True, exclude_defaults=True, mode="json")
        if "enableHttps" in plain:
            plain["enableHTTPS"] = plain.pop("enableHttps")
        if "httpTimeout" in plain:
            plain["httpTimeout"] = format_duration(self.http_timeout / 1e9)
        return plain


class Policy(Model):
    """The whole file, without apiVersion and kind."""

    predicates: ListOf[PredicatePolicy] | None = None
    priorities: ListOf[PriorityPolicy] | None = None
    extenders: ListOf[LegacyExtender] = ()
    hard_pod_affinity_symmetric_weight: Int64 = 0
    """0 means 1, as in kube-scheduler."""
    always_check_all_predicates: bool = False

    def errors(self, path: str) -> Iterator[FieldError]:
        """Yield all errors, except for extenders and unknown names."""
        for at, predicate in enumerate(self.predicates or ()):
            yield from _item_errors(predicate, join(path, "predicates", at))
        for at, priority in enumerate(self.priorities or ()):
            yield from _item_errors(priority, join(path, "priorities", at))
            yield from _weight_errors(priority.weight, join(path, "priorities", at, "weight"))
        weight, here = self.hard_pod_affinity_symmetric_weight, "hardPodAffinitySymmetricWeight"
        if not 0 <= weight <= 100:
            yield invalid(join(path, here), weight, "must be in the range 0-100")


def read_policy(document: Mapping[str, Any]) -> tuple[Policy, list[FieldError]]:
    """Read a Policy; return it with a list of errors, to which the caller may add."""
    found: list[FieldError] = []
    plain = _folded(document)
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = plain.pop(key, wanted)
        if value != wanted:
            found.append(invalid(key, value, f"must be {wanted}"))
    return decode_checked(Policy, plain, "", found), found


def is_policy(document: Mapping[str, Any]) -> bool:
    """Return whether a document says that it is a Policy."""
    return any(str(key).lower() == "kind" and document[key] == KIND for key in document)


def _item_errors(item: PredicatePolicy | PriorityPolicy, path: str) -> Iterator[FieldError]:
    here = join(path, "name")
    if not item.name:
        yield required(here)
    elif not _NAME.fullmatch(item.name):
        reason = f'does not match the name validation regexp "^{_NAME.pattern}$"'
        yield invalid(here, item.name, reason)
    if item.argument is None:
        return
    here = join(path, "argument")
    given = {key: value for key, value in item.argument if value is not None}
    if len(given) != 1:
        kind = "predicate" if isinstance(item, PredicatePolicy) else "priority"
        reason = f"exactly 1 {kind} argument is required"
        yield invalid(here, len(given), reason)
    for key, value in given.items():
        alias = type(item.argument).model_fields[key].alias or key
        yield from value.errors(join(here, alias))


def _weight_errors(weight: int, path: str) -> Iterator[FieldError]:
    if weight <= 0 or weight >= MAX_WEIGHT:
        reason = "should have a positive weight applied to it or it has overflown"
        yield invalid(path, weight, reason)
    elif weight > MAX_PLUGIN_WEIGHT:
        reason = f"has no equivalent: a plugin's weight is at most {MAX_PLUGIN_WEIGHT}"
        yield invalid(path, weight, reason)


_MODELS: Final = (
    Policy,
    PredicatePolicy,
    PredicateArgument,
    PriorityPolicy,
    PriorityArgument,
    LegacyExtender,
    ExtenderTLSConfig,
    ExtenderManagedResource,
    CheckServiceAffinityArgs,
    CheckNodeLabelPresenceArgs,
    ServiceAntiAffinityArgs,
    CapacityRatioArgument,
    UtilizationShapePoint,
    ResourceSpec,
)
#: The keys of a file by their lower case.
_KEYS: Final[Mapping[str, str]] = {"apiversion": "apiVersion", "kind": "kind"} | {
    info.alias.lower(): info.alias
    for model in _MODELS
    for info in model.model_fields.values()
    if info.alias
}


def _folded(value: Any, depth: int = 0) -> Any:
    """Return plain data whose keys have the case that the models expect."""
    if depth > 64:
        return value
    if isinstance(value, Mapping):
        folded: dict[str, Any] = {}
        for key, item in value.items():
            name = _KEYS.get(str(key).lower(), str(key))
            # Two spellings of one key: the exact one counts, as in kube-scheduler.
            if name not in folded or name == key:
                folded[name] = _folded(item, depth + 1)
        return folded
    if isinstance(value, list | tuple):
        return [_folded(item, depth + 1) for item in value]
    return value
