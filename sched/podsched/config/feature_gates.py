"""Check kube-scheduler's feature gates (v1.36), few of which change podsched's behaviour.

A gate is accepted with the value that corresponds to podsched's behaviour. The other value is an
error that explains what podsched does instead, so no setting is ignored silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podsched.config.errors import ConfigError, FieldError, invalid

FLAG = "--feature-gates"
#: The forms of a boolean in Kubernetes' flags, in lower case.
BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "t", "1"), True),
    **dict.fromkeys(("false", "f", "0"), False),
}
VERSION = "1.36"


class Gate(NamedTuple):
    """One feature gate."""

    default: bool
    """Its default value in kube-scheduler."""
    here: bool | None
    """The value that corresponds to podsched's behaviour; None if it can have both."""
    means: str
    """What podsched does, what the value changes, or why it makes no difference."""


_GROUPS = "PodGroups are scheduled as a whole wherever the API serves them"
_NO_ASYNC_CALLS = "podsched sends its writes in batches of its own"

GATES: dict[str, Gate] = {
    "SchedulerQueueingHints": Gate(True, True, "events retry only pods that they can help"),
    "SchedulerPopFromBackoffQ": Gate(
        True, True, "pods leave backoff early when nothing else is ready"
    ),
    "SchedulerAsyncPreemption": Gate(True, True, "victims are evicted while others are scheduled"),
    "OpportunisticBatching": Gate(True, None, "equal pods share an evaluation, with equal results"),
    "NominatedNodeNameForExpectation": Gate(
        True, True, "a pod that waits in Permit or PreBind shows its node"
    ),
    "NodeDeclaredFeatures": Gate(True, True, "the plugin can be disabled in a profile"),
    "SchedulerAsyncAPICalls": Gate(False, None, _NO_ASYNC_CALLS),
    "CoordinatedLeaderElection": Gate(
        False, None, "true, with --kubeconfig: the API server appoints the leader"
    ),
    "StorageCapacityScoring": Gate(False, False, "VolumeBinding does not score by capacity"),
    "TaintTolerationComparisonOperators": Gate(
        False, False, "tolerations with Lt and Gt tolerate nothing"
    ),
    "VolumeLimitScaling": Gate(False, False, "nodes do not scale their volume limits"),
    **{
        name: Gate(True, True, "DynamicResources can be disabled in a profile")
        for name in (
            "DynamicResourceAllocation",
            "DRAAdminAccess",
            "DRAConsumableCapacity",
            "DRADeviceBindingConditions",
            "DRADeviceTaints",
            "DRAExtendedResource",
            "DRAPartitionableDevices",
            "DRAPrioritizedList",
            "DRAResourceClaimDeviceStatus",
            "DRASchedulerFilterTimeout",
        )
    },
    **{
        name: Gate(True, True, "this is always on")
        for name in (
            "ComponentFlagz",
            "ComponentStatusz",
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScaling",
            "MatchLabelKeysInPodTopologySpread",
            "NodeInclusionPolicyInPodTopologySpread",
            "PodLevelResources",
            "SidecarContainers",
            "VolumeAttributesClass",
        )
    },
    "DRAWorkloadResourceClaims": Gate(
        False, None, "PodGroups have claims if the API server keeps them"
    ),
    "DRADeviceTaintRules": Gate(False, None, "true: the scheduler follows DeviceTaintRules"),
    **{
        name: Gate(False, False, "DynamicResources does without it")
        for name in ("DRAListTypeAttributes", "DRANodeAllocatableResources")
    },
    "WorkloadWithJob": Gate(
        False, None, "true: the leader makes a Workload and a PodGroup of Jobs that are one gang"
    ),
    **{
        name: Gate(False, True, _GROUPS)
        for name in (
            "GangScheduling",
            "GenericWorkload",
            "TopologyAwareWorkloadScheduling",
            "WorkloadAwarePreemption",
        )
    },
}


#: Gates of the old releases that read Policy files: the accepted value, and what podsched does.
OLD_GATES: dict[str, tuple[bool, str]] = {
    "EvenPodsSpread": (True, "EvenPodsSpread and its priority are on where there is a Policy"),
    "ResourceLimitsPriorityFunction": (True, "a Policy can name ResourceLimitsPriority"),
    "BalanceAttachedNodeVolumes": (
        False,
        "BalancedResourceAllocation scores the shares of cpu and memory, not of volumes, as it did "
        "by default until the gate was removed in 1.22",
    ),
}

#: Gates that are generally available, and beta gates that are off by default.
_GA = frozenset((
    "SchedulerQueueingHints", "DynamicResourceAllocation", "DRAAdminAccess", "DRAPrioritizedList",
    "InPlacePodVerticalScaling", "NodeInclusionPolicyInPodTopologySpread", "SidecarContainers",
    "VolumeAttributesClass",
))  # fmt: skip
_BETA_OFF = frozenset(
    ("SchedulerAsyncAPICalls", "CoordinatedLeaderElection", "DRADeviceTaintRules")
)


def stage(name: str) -> str:
    """Return a gate's stage as in Kubernetes' metrics: "", BETA or ALPHA; "" once it is GA."""
    if name in _GA:
        return ""
    return "BETA" if GATES[name].default or name in _BETA_OFF else "ALPHA"


def in_effect(given: Mapping[str, bool]) -> dict[str, bool]:
    """Return the value of each gate for the metrics; ``given``: the values that the user set."""
    return {
        name: given.get(name, gate.default if gate.here is None else gate.here)
        for name, gate in GATES.items()
    }


def parse_gates(text: str) -> dict[str, bool]:
    """Parse feature gates such as ``A=true,B=false``. Raises ConfigError with all errors.

    ``AllAlpha`` and ``AllBeta`` are accepted only with their default, false.
    """
    found: dict[str, bool] = {}
    errors: list[FieldError] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        written_name, equals, written = part.removeprefix("kube:").partition("=")
        name, value = written_name.strip(), BOOLEANS.get(written.strip().lower())
        if not equals or value is None:
            errors.append(invalid(FLAG, part, "must be NAME=true or NAME=false"))
        elif (reason := _refusal(name, value)) is not None:
            errors.append(invalid(FLAG, part, reason))
        else:
            found[name] = value
    if errors:
        raise ConfigError(errors)
    return found


def check_version(flag: str, text: str) -> None:
    """Raise ConfigError unless a version is the one of kube-scheduler that podsched follows."""
    if text.removeprefix("kube=").removeprefix("v") != VERSION:
        reason = f"podsched behaves as kube-scheduler {VERSION} and emulates no other version"
        raise ConfigError([invalid(flag, text, reason)])


def _refusal(name: str, value: bool) -> str | None:
    """Return why a gate cannot have a value; None if it can."""
    if name in ("AllAlpha", "AllBeta"):
        return f"{name} cannot be set: name the gates" if value else None
    if name in OLD_GATES:
        here, means = OLD_GATES[name]
        return None if value is here else f"cannot be {str(value).lower()}: {means}"
    gate = GATES.get(name)
    if gate is None:
        return "unknown feature gate"
    if gate.here is None or gate.here is value:
        return None
    return f"cannot be {str(value).lower()}: {gate.means}"
