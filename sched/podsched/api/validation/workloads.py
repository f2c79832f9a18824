"""Workloads whose pods run for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsched.api import objects as o
from podsched.api.codec import object_json
from podsched.api.quantity_fields import are_same
from podsched.api.selectors import Selector, compile_selector, from_labels
from podsched.api.validation.meta import validate_label_selector, validate_labels
from podsched.api.validation.place import Place
from podsched.api.validation.pods import validate_spec
from podsched.api.validation.topology_requests import validate_topology_request

#: Fields of a StatefulSet that can change.
_MUTABLE = (
    *("replicas", "ordinals", "template", "update_strategy", "revision_history_limit"),
    *("persistent_volume_claim_retention_policy", "min_ready_seconds"),
)
_ONLY_MUTABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def validate_replica_set(at: Place, item: o.ReplicaSet | o.Deployment) -> None:
    """Check replicas, the selector and the template."""
    _check_replicas(at, item)
    _check_lasting_template(at("spec.template"), item.spec.template, "ReplicaSet")


def validate_stateful_set(at: Place, item: o.StatefulSet) -> None:
    """Check replicas, policies, selector and the template, which its controller completes."""
    _check_replicas(at, item)
    _check_policies(at("spec"), item.spec)
    template = o.copy_of(item.spec.template)
    # The controller sets these two for each pod, and puts the claims in place of volumes of the
    # same names (``initIdentity``, ``updateStorage``): what the template has there does not count.
    for name in ("hostname", "subdomain"):
        template.spec.ClearField(name)
    claimed = {claim.metadata.name for claim in item.spec.volume_claim_templates}
    kept = [volume for volume in template.spec.volumes if volume.name not in claimed]
    del template.spec.volumes[:]
    for name in claimed:
        template.spec.volumes.add(name=name).persistent_volume_claim.claim_name = name
    template.spec.volumes.extend(kept)
    _check_lasting_template(at("spec.template"), template, "StatefulSet")


def _check_policies(at: Place, spec: o.StatefulSetSpec) -> None:
    """Check how pods come and go: controllers take unknown policies for others."""
    at("podManagementPolicy").one_of(spec.pod_management_policy, ("OrderedReady", "Parallel"))
    update, place = object_json(spec.update_strategy), at("updateStrategy")
    place("type").one_of(update.get("type", ""), ("OnDelete", "RollingUpdate"))
    place("rollingUpdate.partition").least(_number(update.get("rollingUpdate"), "partition"))
    retention = at("persistentVolumeClaimRetentionPolicy")
    for event, kept in object_json(spec.persistent_volume_claim_retention_policy).items():
        retention(event).one_of(kept, ("Delete", "Retain"))
    at("ordinals.start").least(_number(object_json(spec.ordinals), "start"))


def _number(content: Any, name: str) -> int:
    """Return a member of what has no schema, 0 if there is no such number."""
    value = content.get(name) if isinstance(content, dict) else None
    return value if isinstance(value, int) else 0


def _check_lasting_template(at: Place, template: o.PodTemplateSpec, owner: str) -> None:
    """Check the template of pods that run until they are deleted."""
    check_template(at, template)
    if template.spec.HasField("active_deadline_seconds"):
        reason = f"activeDeadlineSeconds in {owner} is not Supported"
        at("spec.activeDeadlineSeconds").forbidden(reason)


def _check_replicas(at: Place, item: o.ReplicaSet | o.StatefulSet | o.Deployment) -> None:
    """Check replicas, and that the selector selects the pods of the template."""
    spec, at = item.spec, at("spec")
    at("replicas").least(spec.replicas)
    at("minReadySeconds").least(spec.min_ready_seconds)
    check_selector(at, spec.HasField("selector"), spec.selector, spec.template)


def check_selector(
    at: Place, is_set: bool, selector: o.LabelSelector, template: o.PodTemplateSpec
) -> None:
    """Check that a selector selects something, among it the pods of a template."""
    if not is_set or not (selector.match_labels or selector.match_expressions):
        at("selector").required()
        return
    known = len(at.errors)
    validate_label_selector(at("selector"), selector)
    compiled = compile_selector(selector) if len(at.errors) == known else None
    labels = template.metadata.labels
    validate_labels(at("template.metadata.labels"), labels)
    if compiled is not None:
        _check_selected(at, compiled, labels)


def validate_deployment(at: Place, item: o.Deployment) -> None:
    """Check the selector, the template, and how pods are replaced."""
    validate_replica_set(at, item)
    spec, at = item.spec, at("spec")
    at("revisionHistoryLimit").least(spec.revision_history_limit)
    at("progressDeadlineSeconds").least(spec.progress_deadline_seconds)
    if spec.progress_deadline_seconds <= spec.min_ready_seconds:
        reason = "must be greater than minReadySeconds"
        at("progressDeadlineSeconds").invalid(spec.progress_deadline_seconds, reason)
    strategy = at("strategy")
    strategy("type").one_of(spec.strategy.type, ("Recreate", "RollingUpdate"))
    if spec.strategy.type == "Recreate" and spec.strategy.HasField("rolling_update"):
        reason = "may not be specified when strategy `type` is 'Recreate'"
        strategy("rollingUpdate").forbidden(reason)
    elif spec.strategy.type == "RollingUpdate":
        rolling = spec.strategy.rolling_update
        _check_rolling_update(strategy("rollingUpdate"), rolling)
        if not (_amount(rolling.max_unavailable) or _amount(rolling.max_surge)):
            reason = "may not be 0 when `maxSurge` is 0"
            place = strategy("rollingUpdate.maxUnavailable")
            place.invalid(rolling.max_unavailable, reason)


def validate_daemon_set(at: Place, item: o.DaemonSet) -> None:
    """Check the selector, the template, and how pods are replaced."""
    spec = item.spec
    check_selector(at("spec"), spec.HasField("selector"), spec.selector, spec.template)
    at = at("spec")
    _check_lasting_template(at("template"), spec.template, "DaemonSet")
    at("minReadySeconds").least(spec.min_ready_seconds)
    at("revisionHistoryLimit").least(spec.revision_history_limit)
    update = at("updateStrategy")
    update("type").one_of(spec.update_strategy.type, ("OnDelete", "RollingUpdate"))
    if spec.update_strategy.type == "RollingUpdate":
        rolling = spec.update_strategy.rolling_update
        _check_rolling_update(update("rollingUpdate"), rolling)
        amounts = (_amount(rolling.max_unavailable), _amount(rolling.max_surge))
        if bool(amounts[0]) == bool(amounts[1]):
            which = "both" if amounts[0] else "neither"
            text = "may not be set when maxSurge is non-zero" if amounts[0] else "cannot be 0"
            update("rollingUpdate.maxUnavailable").invalid(which, text)


def _check_rolling_update(at: Place, rolling: o.RollingUpdate) -> None:
    for each, value in at.fields(("max_unavailable", "max_surge"), rolling):
        if _amount(value) is None:
            reason = "must be an integer of at least 0 or a percentage, such as 1 or 25%"
            each.invalid(value, reason)
    unavailable = rolling.max_unavailable
    if unavailable.endswith("%") and (_amount(unavailable) or 0) > 100:
        at("maxUnavailable").invalid(unavailable, "must not be greater than 100%")


def _amount(value: str) -> int | None:
    """Return the number in an amount of pods or percents; None if it has none."""
    digits = value.removesuffix("%")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 11 else None


def check_template(at: Place, template: o.PodTemplateSpec, *policies: str) -> None:
    """Check a pod template; ``policies``: the restart policies that its pods may have."""
    _check_template_spec(at, template)
    policy, wanted = template.spec.restart_policy, policies or ("Always",)
    if policy not in wanted:
        at("spec.restartPolicy").not_supported(policy, wanted)


def _check_template_spec(at: Place, template: o.PodTemplateSpec) -> None:
    validate_topology_request(at("metadata"), template.metadata)
    validate_spec(at, template.spec)
    if template.spec.ephemeral_containers:
        reason = "ephemeral containers not allowed in pod template"
        at("spec.ephemeralContainers").forbidden(reason)


def validate_pod_template(at: Place, item: o.PodTemplate) -> None:
    """Check the template."""
    at = at("template")
    validate_labels(at("metadata.labels"), item.template.metadata.labels)
    _check_template_spec(at, item.template)


def validate_horizontal_pod_autoscaler(at: Place, item: o.HorizontalPodAutoscaler) -> None:
    """Check what is scaled, and how far."""
    spec, at = item.spec, at("spec")
    at("scaleTargetRef.kind").present(spec.scale_target_ref.kind)
    at("scaleTargetRef.name").present(spec.scale_target_ref.name)
    at("minReplicas").least(spec.min_replicas, 1)
    at("maxReplicas").least(spec.max_replicas, 1)
    if spec.max_replicas < spec.min_replicas:
        reason = "must be greater than or equal to `minReplicas`"
        at("maxReplicas").invalid(spec.max_replicas, reason)
    at("metrics").bounded(spec.metrics, 100)


def _check_selected(at: Place, selector: Selector, labels: Mapping[str, str]) -> None:
    if not selector.matches(labels):
        reason = "`selector` does not match template `labels`"
        at("template.metadata.labels").invalid(dict(labels), reason)


def validate_replication_controller(at: Place, item: o.ReplicationController) -> None:
    """Check replicas, and that the selector selects the pods of the template, if there is one."""
    spec, at = item.spec, at("spec")
    at("replicas").least(spec.replicas)
    if not at("selector").present(spec.selector):
        return
    validate_labels(at("selector"), spec.selector)
    if spec.HasField("template"):
        _check_selected(at, from_labels(spec.selector), spec.template.metadata.labels)


def validate_replica_set_update(
    at: Place,
    new: o.ReplicaSet | o.StatefulSet | o.Deployment | o.DaemonSet,
    old: o.ReplicaSet | o.StatefulSet | o.Deployment | o.DaemonSet,
) -> None:
    """Check that the selector stays: it says to which owner pods belong."""
    at("spec.selector").fixed(new.spec.selector, old.spec.selector, "")


def validate_stateful_set_update(at: Place, new: o.StatefulSet, old: o.StatefulSet) -> None:
    """Check that nothing changes by which its controller has made pods and claims."""
    after, before = (o.copy_of(item.spec, without=_MUTABLE) for item in (new, old))
    if not are_same(after, before):
        at("spec").forbidden(_ONLY_MUTABLE)


validate_deployment_update = validate_replica_set_update
validate_daemon_set_update = validate_replica_set_update


def validate_controller_revision(at: Place, item: o.ControllerRevision) -> None:
    """Check that there is a state, and that its number is not negative."""
    at("data").present(item.HasField("data"), "data is mandatory")
    at("revision").least(item.revision)
