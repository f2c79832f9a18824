"""Advertises the API servers to pods: the Service ``kubernetes`` with its endpoints.

A kubelet gives containers the address of this Service, in KUBERNETES_SERVICE_HOST and _PORT. Its
clusterIP and port are the address of an API server itself, so that pods reach it without
kube-proxy. kube-apiserver takes an address of the Services' network instead, which only kube-proxy
serves; a Service that already exists is not changed.

Each API server renews a Lease in kube-system. Those with a valid Lease are in the EndpointSlice.

Source: pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers, v1.36.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Sequence
from typing import Final, cast

from podsched.api.kinds import KINDS, kind_of
from podsched.api.objects import (
    AnyObject,
    EndpointPort,
    Endpoints,
    EndpointSlice,
    Lease,
    Service,
    object_key,
    seconds_of,
    timestamp,
)
from podsched.api.reasons import StatusCode
from podsched.lib.network import is_loopback
from podsched.serve.server.admission import encoded
from podsched.serve.server.creation import Creator
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.watchcache import WatchCache
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

#: Seconds between two renewals of the Lease, and checks of what is advertised.
_EVERY: Final = 10.0
#: Seconds after which the Lease of an API server that is gone has ended.
LEASE_SECONDS: Final = 30
_NAMESPACE, _NAME = "default", "kubernetes"
_LEASES: Final = "kube-system"
_PREFIX: Final = "apiserver-"
_IDENTITY: Final = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
_LABELS: Final = {"component": "apiserver", "provider": "kubernetes"}
_PORT_NAME: Final = "https"


def advertised_address(given: str, host: str) -> str:
    """Return the IP address to advertise, "" if pods could not use it.

    given: of --advertise-address, host: of --kube-listen.
    """
    try:
        address = ipaddress.ip_address(given or host.strip("[]"))
    except ValueError:
        return ""
    if is_loopback(str(address)) or address.is_unspecified:
        return ""
    return str(address)


class Advertiser:
    """Advertises one API server. now: Unix time in seconds."""

    def __init__(
        self,
        creator: Creator,
        storage: ObjectStorage,
        cache: WatchCache,
        endpoint: tuple[str, int],
        now: Callable[[], float] = time.time,
    ) -> None:
        """endpoint: IP address and port at which pods reach this API server."""
        self._creator = creator
        self._storage = storage
        self._cache = cache
        self._address, self._port = endpoint
        self._now = now

    async def run(self) -> None:
        """Advertise until cancelled."""
        while True:
            try:
                await self.advertise()
            except ApiError as error:
                _log.warning("Advertising to pods is tried again", error=error.message)
            await asyncio.sleep(_EVERY)

    async def advertise(self) -> None:
        """Renew the Lease, and write what is missing or has changed. Raises ApiError."""
        await self._put(self._lease())
        await self._put(self._service(), keep=True)
        addresses = self._addresses()
        for item in (self._slice(addresses), self._endpoints(addresses)):
            await self._put(item)

    def _addresses(self) -> list[str]:
        """Return the addresses of the API servers with a valid Lease, this one included."""
        found = {self._address}
        oldest = self._now() - LEASE_SECONDS
        for entry in self._cache.objects(KINDS["Lease"]).values():
            if not entry.key.startswith(f"{_LEASES}/{_PREFIX}"):
                continue
            spec = cast(Lease, entry.message).spec
            address, _, port = spec.holder_identity.rpartition("_")
            if port == str(self._port) and seconds_of(spec.renew_time) > oldest:
                # A client may have written the Lease.
                found.add(advertised_address(address, "") or self._address)
        own = _version(self._address)
        return sorted(a for a in found if _version(a) == own)

    def _lease(self) -> Lease:
        name = f"{_PREFIX}{self._address.replace(':', '-')}-{self._port}"
        item = Lease(metadata={"namespace": _LEASES, "name": name, "labels": _IDENTITY})
        item.spec.holder_identity = f"{self._address}_{self._port}"
        item.spec.lease_duration_seconds = LEASE_SECONDS
        item.spec.renew_time.CopyFrom(timestamp(self._now()))
        return item

    def _service(self) -> Service:
        item = Service(metadata={"namespace": _NAMESPACE, "name": _NAME, "labels": _LABELS})
        item.spec.cluster_ip = self._address
        item.spec.ports.add(
            name=_PORT_NAME, protocol="TCP", port=self._port, target_port=str(self._port)
        )
        return item

    def _slice(self, addresses: Sequence[str]) -> EndpointSlice:
        labels = {"kubernetes.io/service-name": _NAME}
        item = EndpointSlice(metadata={"namespace": _NAMESPACE, "name": _NAME, "labels": labels})
        item.address_type = f"IPv{_version(self._address)}"
        item.ports.append(self._endpoint_port())
        for address in addresses:
            item.endpoints.add(addresses=[address], conditions={"ready": True})
        return item

    def _endpoints(self, addresses: Sequence[str]) -> Endpoints:
        # kube-controller-manager must not mirror them into another EndpointSlice.
        labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        item = Endpoints(metadata={"namespace": _NAMESPACE, "name": _NAME, "labels": labels})
        subset = item.subsets.add(ports=[self._endpoint_port()])
        for address in addresses:
            subset.addresses.add(ip=address)
        return item

    def _endpoint_port(self) -> EndpointPort:
        return EndpointPort(name=_PORT_NAME, port=self._port, protocol="TCP")

    async def _put(self, item: AnyObject, *, keep: bool = False) -> None:
        """Create an object, or make the stored one the same. keep: leave one that is there."""
        kind, key = kind_of(item), object_key(item)
        if self._cache.get(kind, key) is None:
            try:
                await self._creator.create(item)
                return
            except ApiError as error:
                if error.code is not StatusCode.ALREADY_EXISTS:
                    raise
        if keep:
            return

        def changed(entry: Entry) -> Step | None:
            stored = entry.decode()
            item.metadata.CopyFrom(stored.metadata)
            return None if item == stored else Step(encoded(kind, item))

        await self._storage.mutate_one(Mutation(kind, key, changed), None)


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version
