"""Services and the owners of pods, as far as spreading reads them."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api import objects as o
from podsched.api.codec import write
from podsched.api.selectors import Selector, compile_selector, from_labels
from podsched.api.validation.meta import validate_label_selector, validate_labels
from podsched.api.validation.place import Place


def validate_service(at: Place, item: o.Service) -> None:
    """Validate ports, type and selector."""
    spec, at = item.spec, at("spec")
    validate_labels(at("selector"), spec.selector)
    if not spec.ports and spec.type != "ExternalName" and spec.cluster_ip != "None":
        at("ports").required()
    for each, port in at("ports").each(spec.ports):
        each("port").between(port.port, 1, 65535)
        each("protocol").one_of(port.protocol, ("TCP", "UDP", "SCTP"))
    at("type").one_of(spec.type, ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"))


def validate_replica_set(at: Place, item: o.ReplicaSet | o.StatefulSet) -> None:
    """Check replicas, and that the selector selects the pods of the template."""
    spec, at = item.spec, at("spec")
    at("replicas").least(spec.replicas)
    selector = spec.selector
    if not spec.HasField("selector") or not (selector.match_labels or selector.match_expressions):
        at("selector").required()
        return
    known = len(at.errors)
    validate_label_selector(at("selector"), selector)
    compiled = compile_selector(selector) if len(at.errors) == known else None
    labels = spec.template.metadata.labels
    validate_labels(at("template.metadata.labels"), labels)
    if compiled is not None:
        _check_selected(at, compiled, labels)


validate_stateful_set = validate_replica_set


def _check_selected(at: Place, selector: Selector, labels: Mapping[str, str]) -> None:
    if not selector.matches(labels):
        reason = "`selector` does not match template `labels`"
        at("template.metadata.labels").invalid(dict(labels), reason)


def validate_replication_controller(at: Place, item: o.ReplicationController) -> None:
    """Check replicas, and that the selector selects the pods of the template, if there is one."""
    spec, at = item.spec, at("spec")
    at("replicas").least(spec.replicas)
    if not spec.selector:
        at("selector").required()
        return
    validate_labels(at("selector"), spec.selector)
    if spec.HasField("template"):
        _check_selected(at, from_labels(spec.selector), spec.template.metadata.labels)


def validate_replica_set_update(
    at: Place, new: o.ReplicaSet | o.StatefulSet, old: o.ReplicaSet | o.StatefulSet
) -> None:
    """Check that the selector stays: it says to which owner pods belong."""
    at("spec.selector").fixed(new.spec.selector, old.spec.selector, "")


validate_stateful_set_update = validate_replica_set_update


def validate_controller_revision(at: Place, item: o.ControllerRevision) -> None:
    """Check that there is a state, and that its number is not negative."""
    if not item.HasField("data"):
        at("data").required("data is mandatory")
    at("revision").least(item.revision)


def validate_controller_revision_update(
    at: Place, new: o.ControllerRevision, old: o.ControllerRevision
) -> None:
    """Check that the state stays: it is what a controller goes back to."""
    if new.data != old.data:
        at("data").fixed(new.data, old.data, write(new).get("data"))
