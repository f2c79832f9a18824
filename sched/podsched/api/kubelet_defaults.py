"""Sets the defaults of pod fields that kubelets read and scheduling does not.

Pods created through the REST API get them, so that Kubernetes' clients read and send back the
fields they expect; through gRPC only where a kubelet may run them. The templates of workloads get
them through both APIs: the Deployment controller compares templates.

Source: pkg/apis/core/v1/defaults.go, v1.36.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct

from podsched.api.objects import AnyObject, CronJob, Pod, PodTemplate, PodTemplateSpec
from podsched.api.pod_defaulting import default_template_spec

_MODE: Final = 420  # 0644
_TOKEN_SECONDS: Final = 3600
_PROBE: Final = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def set_kubelet_defaults(message: AnyObject, old: AnyObject | None = None) -> None:
    """Set the defaults of a pod or of an object's pod template, in place.

    old: the object it replaces; a pod created through gRPC without defaults stays without them.
    """
    if isinstance(message, Pod):
        if old is None or (isinstance(old, Pod) and old.spec.HasField("security_context")):
            _complete(message.spec)
        return
    template, before = template_of(message), template_of(old)
    if template is None or not template.ListFields():
        return
    if before is None or before.spec.HasField("security_context"):
        default_template(template)


def default_template(template: PodTemplateSpec) -> None:
    """Set the defaults of a pod template, in place."""
    default_template_spec(template.spec)
    _complete(template.spec)


def template_of(message: Any) -> Any:
    """Return the pod template of an object; None for kinds without one."""
    if isinstance(message, PodTemplate):
        return message.template
    spec: Any = getattr(message, "spec", None)
    if isinstance(message, CronJob):
        spec = spec.job_template.spec
    found = spec is not None and "template" in spec.DESCRIPTOR.fields_by_name
    return spec.template if found else None


def _complete(spec: Any) -> None:
    spec.security_context.SetInParent()
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        _complete_container(container)
    for volume in spec.volumes:
        for name in ("config_map", "secret", "projected", "downward_api"):
            if volume.HasField(name):
                default_in_struct(getattr(volume, name), "defaultMode", _MODE)
        if volume.HasField("projected"):
            _complete_tokens(volume.projected)


def _complete_container(container: Any) -> None:
    path = container.termination_message_path
    container.termination_message_path = path or "/dev/termination-log"
    container.termination_message_policy = container.termination_message_policy or "File"
    container.resources.SetInParent()
    for name in ("liveness_probe", "readiness_probe", "startup_probe"):
        if container.HasField(name):
            probe = getattr(container, name)
            for field, value in _PROBE.items():
                default_in_struct(probe, field, value)
            _complete_handler(probe)
    if container.HasField("lifecycle"):
        for name in ("postStart", "preStop"):
            if name in container.lifecycle.fields:
                _complete_handler(container.lifecycle[name])
    for variable in container.env:
        if variable.HasField("value_from") and "fieldRef" in variable.value_from:
            default_in_struct(variable.value_from["fieldRef"], "apiVersion", "v1")


def _complete_handler(handler: Any) -> None:
    """Set the defaults of what is asked over HTTP, if this is."""
    if isinstance(handler, Struct) and "httpGet" in handler.fields:
        default_in_struct(handler["httpGet"], "path", "/")
        default_in_struct(handler["httpGet"], "scheme", "HTTP")


def _complete_tokens(projected: Struct) -> None:
    """Set how long projected tokens last, which kubelets do not do."""
    listed = projected.fields["sources"].list_value if "sources" in projected.fields else None
    for source in listed.values if listed is not None else ():
        fields = source.struct_value.fields
        if "serviceAccountToken" in fields:
            token = fields["serviceAccountToken"].struct_value
            default_in_struct(token, "expirationSeconds", _TOKEN_SECONDS)


def default_in_struct(target: Any, name: str, value: Any) -> None:
    """Set a member of a ``Struct`` that is not set or empty; of anything else, nothing."""
    if isinstance(target, Struct) and not (name in target.fields and target[name]):
        target[name] = value
