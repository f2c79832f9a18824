"""Services: their ports, their type, and the addresses that they ask for."""

from __future__ import annotations

import re

from podsched.api import objects as o
from podsched.api.names import dns1123_label, dns1123_subdomain, port_name
from podsched.api.services import (
    HEADLESS,
    has_addresses,
    has_node_ports,
    is_external,
    may_have_node_ports,
)
from podsched.api.validation.endpoints import ip_of
from podsched.api.validation.meta import validate_labels
from podsched.api.validation.place import Place

#: Ports of a Service whose ports are also ports of the nodes: their keys are written in one
#: transaction of etcd, which has at most 128 operations.
_MOST_NODE_PORTS = 100
_POLICIES = ("Cluster", "Local")
_CHOICES = (
    ("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    ("sessionAffinity", ("ClientIP", "None")),
    ("internalTrafficPolicy", _POLICIES),
    ("externalTrafficPolicy", _POLICIES),
    ("ipFamilyPolicy", ("PreferDualStack", "RequireDualStack", "SingleStack")),
)


def validate_service(at: Place, item: o.Service) -> None:
    """Check type, selector, ports and addresses."""
    spec, at = item.spec, at("spec")
    values = (
        *(spec.type, spec.session_affinity, spec.internal_traffic_policy),
        *(spec.external_traffic_policy, spec.ip_family_policy),
    )
    for (name, supported), value in zip(_CHOICES, values, strict=True):
        at(name).one_of(value, supported)
    validate_labels(at("selector"), spec.selector)
    if spec.type == "ExternalName":
        at("externalName").name(spec.external_name.removesuffix("."), dns1123_subdomain)
    if spec.external_traffic_policy and not is_external(spec):
        reason = "may only be set for externally-accessible services"
        at("externalTrafficPolicy").invalid(spec.external_traffic_policy, reason)
    _check_ports(at("ports"), spec)
    _check_addresses(at("clusterIPs"), spec)
    for each, family in at("ipFamilies").each(spec.ip_families, 2):
        each.one_of(family, ("IPv4", "IPv6"))


def _check_ports(at: Place, spec: o.ServiceSpec) -> None:
    if not spec.ports and has_addresses(spec) and spec.cluster_ip != HEADLESS:
        at.required()
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    most = _MOST_NODE_PORTS if has_node_ports(spec) else 1000
    for each, port in at.each(spec.ports, most):
        if port.name or len(spec.ports) > 1:
            each("name").name(port.name, dns1123_label)
            if port.name:
                each("name").once(port.name, names)
        each("port").between(port.port, 1, 65535)
        each("protocol").one_of(port.protocol, ("TCP", "UDP", "SCTP"))
        if re.fullmatch("-?[0-9]{1,18}", port.target_port):
            each("targetPort").between(int(port.target_port), 1, 65535)
        else:
            each("targetPort").optional_name(port.target_port, port_name)
        each.once(
            (port.protocol, port.port), numbers, {"protocol": port.protocol, "port": port.port}
        )
        if port.node_port and not may_have_node_ports(spec):
            each("nodePort").forbidden(f"may not be used when `type` is '{spec.type}'")


def _check_addresses(at: Place, spec: o.ServiceSpec) -> None:
    """Check the addresses that are asked for; whether they are free is checked when stored."""
    addresses = list(spec.cluster_ips)
    if not has_addresses(spec) and (addresses or spec.cluster_ip):
        at.forbidden("may not be set for ExternalName services")
    if has_addresses(spec) and addresses:
        _check_asked(at, spec, addresses)


def _check_asked(at: Place, spec: o.ServiceSpec, addresses: list[str]) -> None:
    if not spec.cluster_ip:
        at.invalid(addresses, "must be empty when `clusterIP` is not specified")
    elif addresses[0] != spec.cluster_ip:
        at.invalid(addresses, "first value must match `clusterIP`")
    if HEADLESS in addresses:
        if len(addresses) > 1:
            at.invalid(addresses, "'None' must be the first and only value")
        if spec.type != "ClusterIP":
            at[0].invalid(HEADLESS, f"may not be set to 'None' for {spec.type} services")
    else:
        _check_ips(at, addresses)


def _check_ips(at: Place, addresses: list[str]) -> None:
    if len(addresses) > 1:
        at.invalid(addresses, "may specify no more than one IP for each IP family")
    for each, address in at.each(addresses, 2):
        found = ip_of(each, address)
        if found is not None and address != str(found):
            each.invalid(address, f"must be written as {found}")


def validate_service_update(at: Place, new: o.Service, old: o.Service) -> None:
    """Check that the address stays while the Service has one."""
    before, after = old.spec, new.spec
    if not has_addresses(before) or not has_addresses(after) or not before.cluster_ips:
        return
    if after.cluster_ips[:1] != before.cluster_ips[:1]:
        at("spec.clusterIPs[0]").invalid(list(after.cluster_ips), "may not change once set")
