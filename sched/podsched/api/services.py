"""The fields of Services that an API server allocates: which Services have them, and updates.

Source: pkg/apis/core/v1/defaults.go and pkg/registry/core/service/{strategy,storage/alloc}.go,
v1.36.
"""

from __future__ import annotations

from typing import Final

from podsched.api import objects as o

HEADLESS: Final = "None"
#: The ports of nodes that Services get, both inclusive.
FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767
_EXTERNAL = ("NodePort", "LoadBalancer")


def has_addresses(spec: o.ServiceSpec) -> bool:
    """Return whether a Service is of a type with clusterIPs, which may be "None"."""
    return spec.type != "ExternalName"


def has_node_ports(spec: o.ServiceSpec) -> bool:
    """Return whether each port of a Service gets a port of the nodes."""
    declined = spec.HasField("allocate_load_balancer_node_ports") and not (
        spec.allocate_load_balancer_node_ports
    )
    return spec.type == "NodePort" or (spec.type == "LoadBalancer" and not declined)


def may_have_node_ports(spec: o.ServiceSpec) -> bool:
    """Return whether ports of a Service may name ports of the nodes."""
    return spec.type in _EXTERNAL


def has_health_check_port(spec: o.ServiceSpec) -> bool:
    """Return whether a Service gets a port of the nodes for health checks."""
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def is_external(spec: o.ServiceSpec) -> bool:
    """Return whether a Service is reached from outside the cluster, and so has a policy for it."""
    return spec.type in _EXTERNAL or (spec.type == "ClusterIP" and bool(spec.external_ips))


def default_service(item: o.Service) -> None:
    """Set the defaults that do not depend on the cluster's network."""
    spec = item.spec
    for port in spec.ports:
        port.protocol = port.protocol or "TCP"
        if port.target_port in ("", "0"):
            port.target_port = str(port.port)
    if spec.session_affinity == "ClientIP":
        client = spec.session_affinity_config.get_or_create_struct("clientIP")
        if "timeoutSeconds" not in client:
            client["timeoutSeconds"] = 10800
    else:
        spec.ClearField("session_affinity_config")
    if not item.HasField("status"):
        item.status.get_or_create_struct("loadBalancer")
    if is_external(spec):
        spec.external_traffic_policy = spec.external_traffic_policy or "Cluster"
    if spec.type == "LoadBalancer" and not spec.HasField("allocate_load_balancer_node_ports"):
        spec.allocate_load_balancer_node_ports = True
    if has_addresses(spec):
        spec.internal_traffic_policy = spec.internal_traffic_policy or "Cluster"
        if spec.cluster_ip and not spec.cluster_ips:
            spec.cluster_ips.append(spec.cluster_ip)


def complete_update(new: o.ServiceSpec, old: o.ServiceSpec) -> None:
    """Keep what was allocated and is not named, and drop what another type does not have."""
    if new.cluster_ip != old.cluster_ip and new.cluster_ips == old.cluster_ips:
        # The client knows only the older of the two fields.
        new.cluster_ips[:] = [new.cluster_ip] if new.cluster_ip else []
    _keep_allocated(new, old)
    _drop_unchanged(new, old)


def _keep_allocated(new: o.ServiceSpec, old: o.ServiceSpec) -> None:
    if has_addresses(new) and has_addresses(old):
        new.cluster_ip = new.cluster_ip or old.cluster_ip
        if not new.cluster_ips and new.cluster_ip == old.cluster_ip:
            new.cluster_ips[:] = old.cluster_ips
        new.ip_families[:] = new.ip_families or old.ip_families
        new.ip_family_policy = new.ip_family_policy or old.ip_family_policy
    if has_node_ports(new) and has_node_ports(old):
        named = {port.node_port for port in new.ports}
        before = {port.name: port.node_port for port in old.ports}
        for port in new.ports:
            kept = before.get(port.name, 0)
            if not port.node_port and kept not in named:
                port.node_port = kept
                named.add(kept)
    if has_health_check_port(new) and has_health_check_port(old):
        new.health_check_node_port = new.health_check_node_port or old.health_check_node_port


def _drop_unchanged(new: o.ServiceSpec, old: o.ServiceSpec) -> None:
    """Drop fields of the former type, unless the client has set them to something else."""
    dropped: list[str] = []
    if not has_addresses(new) and has_addresses(old):
        dropped += ["cluster_ips", "cluster_ip", "ip_families", "ip_family_policy"]
        dropped.append("internal_traffic_policy")
    if not has_health_check_port(new):
        dropped.append("health_check_node_port")
    if not is_external(new):
        dropped.append("external_traffic_policy")
    if new.type != "LoadBalancer":
        dropped += ["allocate_load_balancer_node_ports", "load_balancer_class"]
    for field in dropped:
        if getattr(new, field) == getattr(old, field):
            new.ClearField(field)
    if may_have_node_ports(old) and not may_have_node_ports(new):
        before = {0, *(port.node_port for port in old.ports)}
        if all(port.node_port in before for port in new.ports):
            for port in new.ports:
                port.node_port = 0
