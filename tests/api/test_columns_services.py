"""The ports of Services as kubectl shows them."""

from __future__ import annotations

from podsched.api.columns import ports
from podsched.api.objects import Service


def test_a_port_is_shown_with_its_port_of_the_nodes() -> None:
    service = Service()
    service.spec.ports.add(port=80, node_port=30080, protocol="TCP")
    service.spec.ports.add(port=53, protocol="UDP")
    assert ports(service, 0) == "80:30080/TCP,53/UDP"
