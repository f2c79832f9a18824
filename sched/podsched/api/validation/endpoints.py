"""Endpoints and EndpointSlices (ValidateEndpoints, ValidateEndpointSlice)."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address

from podsched.api import objects as o
from podsched.api.names import dns1123_label, dns1123_subdomain
from podsched.api.validation.place import Place

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("IPv4", "IPv6", "FQDN")
_MOST_ENDPOINTS = 1000
_MOST_ADDRESSES = 100


def validate_endpoints(at: Place, item: o.Endpoints) -> None:
    """Check addresses and ports."""
    for each, subset in at("subsets").each(item.subsets):
        if not subset.addresses and not subset.not_ready_addresses:
            each.required("must specify `addresses` or `notReadyAddresses`")
        for name, addresses in (
            ("addresses", subset.addresses),
            ("notReadyAddresses", subset.not_ready_addresses),
        ):
            for place, address in each(name).each(addresses):
                _check_ip(place("ip"), address.ip)
        _check_ports(each("ports"), subset.ports)


def validate_endpoint_slice(at: Place, item: o.EndpointSlice) -> None:
    """Check the type, addresses and ports."""
    at("addressType").one_of(item.address_type, _TYPES, required=True)
    for each, endpoint in at("endpoints").each(item.endpoints, _MOST_ENDPOINTS):
        each("addresses").present(endpoint.addresses, "must contain at least 1 address")
        for place, address in each("addresses").each(endpoint.addresses, _MOST_ADDRESSES):
            _check_address(place, address, item.address_type)
        each("hostname").optional_name(endpoint.hostname, dns1123_label)
    _check_ports(at("ports"), item.ports)


def _check_address(at: Place, address: str, kind: str) -> None:
    if kind == "FQDN":
        at.rule(address, dns1123_subdomain)
    elif kind in _TYPES:
        _check_ip(at, address, version=4 if kind == "IPv4" else 6)


def ip_of(at: Place, text: str) -> IPv4Address | IPv6Address | None:
    """Check an IP address; return it, None if it is none."""
    try:
        return ip_address(text)
    except ValueError:
        reason = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        at.invalid(text[:100], reason)
        return None


def _check_ip(at: Place, address: str, version: int = 0) -> None:
    if (found := ip_of(at, address)) is None:
        return
    if version and found.version != version:
        at.invalid(address, f"must be a valid IPv{version} address")
    elif found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast:
        at.invalid(address, "may not be unspecified, loopback, link-local or multicast")


def _check_ports(at: Place, ports: Collection[o.EndpointPort]) -> None:
    names: set[str] = set()
    for each, port in at.each(ports, _MOST_ADDRESSES):
        each("name").optional_name(port.name, dns1123_label)
        each("name").once(port.name, names)
        each("protocol").one_of(port.protocol, _PROTOCOLS)
        if port.HasField("port"):
            each("port").between(port.port, 1, 65535)
