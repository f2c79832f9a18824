"""Allocates the addresses of Services, and the ports that they have on all nodes.

    /podsched/addresses/<address>    the Service that has a clusterIP, "namespace/name"
    /podsched/nodeports/<port>       the Service that has a port of the nodes

The write that stores a Service puts these keys and compares that they are absent; the write that
removes it, or changes its type, deletes them. It is one etcd transaction, so several API servers
never give an address twice, and none is lost when a server ends in between. A server chooses what
no Service in its watch cache has. If another one has given it to a Service meanwhile, the compare
fails, and it chooses again, or refuses a Service that asked for just that one.

As in Kubernetes, the first addresses of a range are chosen last, so that they can be asked for.
The Service ``kubernetes`` has an address of an API server (``advertising``), so it has no key.

Source: pkg/registry/core/service/storage/alloc.go and ipallocator, v1.36.
"""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Final, cast

from podsched.api.etcd_keys import ADDRESSES, NODE_PORTS, address_key, node_port_key
from podsched.api.field_errors import FieldError, invalid
from podsched.api.kinds import KINDS
from podsched.api.objects import Service, object_key
from podsched.api.reasons import StatusCode, StatusReason
from podsched.api.services import (
    FIRST_NODE_PORT,
    HEADLESS,
    LAST_NODE_PORT,
    has_addresses,
    has_health_check_port,
    has_node_ports,
)
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import Compare, Delete, KeyValue, Put

SERVICE: Final = KINDS["Service"]
#: The Service with an address outside the range.
_KUBERNETES: Final = "default/kubernetes"
_PORT_TAKEN: Final = "provided port is already allocated"


class ServiceAddresses:
    """Chooses addresses and ports for Services, and knows the keys that they have.

    network: the addresses, such as "10.96.0.0/12". choose: a random number below its argument.
    """

    def __init__(
        self,
        cache: WatchCache,
        network: str,
        choose: Callable[[int], int] = random.SystemRandom().randrange,
    ) -> None:
        self.network = ipaddress.ip_network(network)
        self._choose = choose
        self._keys: dict[str, tuple[str, ...]] = {}
        #: How many Services have a key: two, if they were stored by a server without keys.
        self._used: Counter[str] = Counter()
        cache.follow(SERVICE, self._changed)

    def _changed(self, name: str, entry: Entry | None) -> None:
        for key in self._keys.pop(name, ()):
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
        if entry is not None:
            keys = self._keys[name] = tuple(self.keys_of(cast(Service, entry.message)))
            self._used.update(keys)

    def keys_of(self, service: Service) -> dict[str, None]:
        """Return the keys of the addresses and ports that a Service has."""
        spec = service.spec
        found = [address_key(ip) for ip in spec.cluster_ips if self._is_in_range(ip)]
        ports = [*(port.node_port for port in spec.ports), spec.health_check_node_port]
        found += [node_port_key(port) for port in ports if port]
        return dict.fromkeys(found)

    def _is_in_range(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        edges = (self.network.network_address, self.network.broadcast_address)
        return found in self.network and found not in edges

    def allocate(self, service: Service, before: Service, taken: Container[str]) -> dict[str, None]:
        """Give a Service what it lacks, in place; return the keys that are to be put.

        before: the stored Service, an empty one if it is new; taken: keys that were found put.
        Raises ApiError if what it asks for is taken or out of range, or if nothing is left.
        """
        held = self.keys_of(before)
        found = _Allocation(self, service, lambda key: key in taken or self._used[key] > 0, held)
        if has_addresses(service.spec):
            found.set_families()
            found.set_address(before.spec.cluster_ip)
        found.set_ports(is_new=not before.metadata.name)
        return {key: None for key in self.keys_of(service) if key not in held}

    def are_taken(self, service: Service) -> bool:
        """Return whether others seem to have an address or a port that a new Service asks for."""
        asked = (address_key(service.spec.cluster_ip), *self.keys_of(service))
        return any(self._used[key] for key in asked)

    def free(self, first: int, last: int, is_used: Callable[[int], bool]) -> int | None:
        """Return a random number from ``first`` up to ``last`` that is not used."""
        count = max(last - first + 1, 0)
        start = self._choose(count) if count else 0
        numbers = (first + (start + step) % count for step in range(count))
        return next((number for number in numbers if not is_used(number)), None)

    def guarded(self, mutation: Mutation) -> Mutation:
        """Return a mutation of a Service that also allocates; others are returned unchanged."""
        return _Guarded(self, mutation).mutation if mutation.kind is SERVICE else mutation


class _Allocation:
    """The allocation for one Service.

    is_used: whether a key is known to be put; held: the keys that the Service has already.
    """

    def __init__(
        self,
        addresses: ServiceAddresses,
        service: Service,
        is_used: Callable[[str], bool],
        held: Container[str],
    ) -> None:
        self._addresses = addresses
        self._service = service
        self._spec = service.spec
        self._is_used = is_used
        self._held = held
        self._is_kubernetes = object_key(service) == _KUBERNETES

    def set_families(self) -> None:
        """Set the families of addresses: the range's, as there is only one. Raises ApiError."""
        spec, own = self._spec, f"IPv{self._addresses.network.version}"
        if self._is_kubernetes and spec.cluster_ip:
            own = "IPv6" if ":" in spec.cluster_ip else "IPv4"
        selectorless = spec.cluster_ip == HEADLESS and not spec.selector
        default = "RequireDualStack" if selectorless else "SingleStack"
        spec.ip_family_policy = spec.ip_family_policy or default
        if not spec.ip_families:
            spec.ip_families.append(own)
            if selectorless and spec.ip_family_policy != "SingleStack":
                spec.ip_families.append("IPv6" if own == "IPv4" else "IPv4")
        if selectorless:
            return  # Its endpoints are a client's, which may use both.
        wrong = []
        if spec.ip_family_policy == "RequireDualStack":
            reason = "this cluster is not configured for dual-stack services"
            wrong.append(invalid("spec.ipFamilyPolicy", spec.ip_family_policy, reason))
        for index, family in enumerate(spec.ip_families):
            if family != own:
                reason = "not configured on this cluster"
                wrong.append(invalid(f"spec.ipFamilies[{index}]", family, reason))
        self._refuse(wrong)

    def set_address(self, before: str) -> None:
        """Choose an address, or check the one that is asked for. Raises ApiError."""
        spec = self._spec
        if not spec.cluster_ip:
            spec.cluster_ip = self._free_address()
            spec.cluster_ips[:] = [spec.cluster_ip]
        if spec.cluster_ip in (HEADLESS, before) or self._is_kubernetes:
            return
        if not self._addresses.keys_of(Service(spec={"cluster_ips": [spec.cluster_ip]})):
            reason = "the provided network does not match the current range"
        elif self._is_others(address_key(spec.cluster_ip)):
            reason = "provided IP is already allocated"
        else:
            return
        text = f"failed to allocate IP {spec.cluster_ip}: {reason}"
        self._refuse([invalid("spec.clusterIPs", list(spec.cluster_ips), text)])

    def _free_address(self) -> str:
        network = self._addresses.network
        first, last = network.network_address, network.num_addresses - 2
        # As calculateRangeOffset of Kubernetes' ipallocator.
        low = min(max(16, network.num_addresses // 16), 256)
        for span in ((low, last), (1, min(low - 1, last))):
            offset = self._addresses.free(
                *span, lambda offset: self._is_used(address_key(str(first + offset)))
            )
            if offset is not None:
                return str(first + offset)
        raise _full("a serviceIP")

    def set_ports(self, *, is_new: bool) -> None:
        """Check the ports of nodes that are asked for, and choose the others. Raises ApiError.

        A new Service gets one port of the nodes for all protocols of a port.
        """
        spec = self._spec
        wrong: list[FieldError] = []
        #: With the protocol: one port may serve several protocols of a Service.
        own: set[tuple[str, int]] = set()
        for index, port in enumerate(spec.ports):
            if not port.node_port:
                continue
            why = self._port_refusal(port.node_port)
            if (port.protocol, port.node_port) in own:
                why = _PORT_TAKEN
            if why:
                wrong.append(invalid(f"spec.ports[{index}].nodePort", port.node_port, why))
            own.add((port.protocol, port.node_port))
        asked = spec.health_check_node_port
        if asked and (why := self._port_refusal(asked)):
            wrong.append(invalid("spec.healthCheckNodePort", asked, why))
        self._refuse(wrong)
        chosen = {number for _, number in own} | {asked}
        if has_node_ports(spec):
            #: By port.
            known = {port.port: port.node_port for port in spec.ports if is_new and port.node_port}
            for port in spec.ports:
                port.node_port = (
                    port.node_port or known.get(port.port, 0) or self._free_port(chosen)
                )
                if is_new:
                    known.setdefault(port.port, port.node_port)
        if has_health_check_port(spec):
            spec.health_check_node_port = asked or self._free_port(chosen)

    def _port_refusal(self, port: int) -> str:
        key = node_port_key(port)
        if key in self._held:
            return ""
        if not FIRST_NODE_PORT <= port <= LAST_NODE_PORT:
            span = f"The range of valid ports is {FIRST_NODE_PORT}-{LAST_NODE_PORT}"
            return f"provided port is not in the valid range. {span}"
        return _PORT_TAKEN if self._is_others(key) else ""

    def _free_port(self, chosen: set[int]) -> int:
        """Return a free port, and add it to those that the Service has."""
        port = self._addresses.free(
            FIRST_NODE_PORT,
            LAST_NODE_PORT,
            lambda port: port in chosen or self._is_used(node_port_key(port)),
        )
        if port is None:
            raise _full("a nodePort")
        chosen.add(port)
        return port

    def _is_others(self, key: str) -> bool:
        return key not in self._held and self._is_used(key)

    def _refuse(self, wrong: list[FieldError]) -> None:
        if wrong:
            raise errors.invalid_fields(SERVICE, self._service.metadata.name, wrong)


class _Guarded:
    """A mutation of a Service, with the keys that it found put by others."""

    def __init__(self, addresses: ServiceAddresses, mutation: Mutation) -> None:
        self._addresses = addresses
        self._inner = mutation
        self._taken: set[str] = set()
        self.mutation = mutation._replace(change=self._change, refusal=self._refusal)

    def _change(self, entry: Entry) -> Step | None:
        step = self._inner.change(entry)
        if step is None:
            return None
        before = cast(Service, entry.message) if entry.is_readable() else Service()
        held = self._addresses.keys_of(before)
        if step.value is None:
            return step._replace(ops=(*step.ops, *map(Delete, held)))
        after = Service.FromString(step.value)
        added = self._addresses.allocate(after, before, self._taken)
        if after == before:
            return None
        kept = self._addresses.keys_of(after)
        owner = self._inner.key.encode()
        return step._replace(
            value=after.SerializeToString(),
            compares=(*step.compares, *map(Compare.absent, added)),
            ops=(
                *step.ops,
                *(Put(key, owner) for key in added),
                *(Delete(key) for key in held if key not in kept),
            ),
        )

    def _refusal(self, current: Mapping[str, KeyValue | None]) -> ApiError | None:
        """Note what others have; the change is then computed again, and refused if it must be."""
        prefixes = (ADDRESSES, NODE_PORTS)
        self._taken.update(key for key, kv in current.items() if kv and key.startswith(prefixes))
        return self._inner.refusal(current) if self._inner.refusal is not None else None


def usable_network(text: str) -> bool:
    """Return whether a network, such as "10.96.0.0/12", can be the one of clusterIPs."""
    try:
        return ipaddress.ip_network(text).num_addresses >= 16
    except ValueError:
        return False


def _full(what: str) -> ApiError:
    message = f"Internal error occurred: failed to allocate {what}: range is full"
    return ApiError(StatusCode.INTERNAL, StatusReason.INTERNAL, message)
