"""Which port of which pod a request for pods/proxy or services/proxy means.

Source: pkg/registry/core/pod/strategy.go (ResourceLocation) and
pkg/registry/core/service/storage/storage.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from podsched.api.objects import Endpoints, Pod, Service
from podsched.serve.server.rest.failures import bad_request, unavailable

_DEFAULT_PORT: Final = 80


class Asked(NamedTuple):
    """What a request names: [http:|https:]NAME[:PORT]. port: "" if none."""

    tls: bool
    name: str
    port: str


def asked_of(text: str, kind: str) -> Asked:
    """Parse the name in the path of a request. Raises RestError."""
    parts = text.split(":")
    scheme = parts.pop(0) if len(parts) == 3 else ""
    if len(parts) > 2 or scheme not in ("", "http", "https"):
        raise bad_request(f"invalid {kind} request {text[:300]!r}")
    return Asked(scheme == "https", parts[0], parts[1] if len(parts) == 2 else "")


def pod_port(pod: Pod, asked: str) -> int:
    """Return the asked port; without one the first that a container names, or 80. Raises RestError.

    asked: a number, or the name of a container's port.
    """
    ports = [port for container in pod.spec.containers for port in container.ports]
    if not asked:
        return ports[0].container_port if ports else _DEFAULT_PORT
    if asked.isascii() and asked.isdecimal():
        if 0 < int(asked[:6]) < 1 << 16:
            return int(asked)
    else:
        for port in ports:
            if port.name == asked:
                return int(port.container_port)
    raise bad_request(f"port {asked[:63]} of pod {pod.metadata.name}: it has no such port")


def pods_behind(service: Service, endpoints: Endpoints, asked: str) -> Sequence[tuple[str, int]]:
    """Return the ready pods behind a port of a Service, as name and port. Raises RestError.

    asked: number or name of a port of the Service; "": the only one, or the one without name.
    Addresses that do not belong to a pod of the Service's namespace get no requests.
    """
    name = service.metadata.name
    ports = service.spec.ports
    if asked.isascii() and asked.isdecimal():
        of_number = [port.name for port in ports if port.port == int(asked[:6])]
        if not of_number:
            raise unavailable(f'no service port {asked[:6]} found for service "{name}"')
        asked = of_number[0]
    elif not asked and len(ports) == 1:
        asked = ports[0].name
    found = [
        (address.target_ref.name, port.port)
        for subset in endpoints.subsets
        for port in subset.ports
        if port.name == asked
        for address in subset.addresses
        if address.target_ref.kind == "Pod"
        and address.target_ref.namespace == service.metadata.namespace
    ]
    if not found:
        raise unavailable(f'no endpoints available for service "{name}"')
    return found
