"""The claim that is made for a pod's extended resources, if DeviceClasses provide them.

For example, containers request ``nvidia.com/gpu: 2``, and a DeviceClass provides that resource. On
nodes without allocatable of it, the pod gets devices of this class through a claim. The claim
depends on the node, because it requests only resources that the node lacks. So it exists only in
memory until PreBind.

Init containers that end before others start use the devices of later containers, and of each other.
If one needs more devices than these, the difference is a further request; the largest counts.

Source: kube-scheduler v1.36 ``dynamicresources/extendeddynamicresources.go``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from podsched.api.extended_resources import EXTENDED_RESOURCE_CLAIM, may_be_devices
from podsched.api.metadata_defaulting import generated_name
from podsched.api.owners import add_owner
from podsched.api.quantity import parse
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.dynamic_resources.documents import read_resource_claim
from podsched.plugins.dynamic_resources.model import EXACT_COUNT, ResourceClaim
from podsched.plugins.pods import once_per_class
from podsched.v1 import objects_pb2 as v1

#: The name of a claim that exists only in memory; not a valid name of an object.
IN_MEMORY: Final = "<extended-resources>"

#: Key of ``PodClass.compiled``.
_CLAIMS: Final = "claims for extended resources"

_ALWAYS: Final = "Always"


class Provided(NamedTuple):
    """A resource that a pod requests, and the DeviceClass that provides it."""

    resource: str
    device_class: str


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim for the extended resources of the pods of a class.

    ``serialized``: its serialized spec. ``mappings``: the requests that each container uses, by
    resource.
    """

    spec: v1.ResourceClaimSpec
    serialized: bytes
    mappings: Sequence[v1.ContainerExtendedResourceRequest]
    _read: ResourceClaim

    def for_pod(self, pod: PodInfo) -> ResourceClaim:
        """Return the claim of a pod as the allocator reads it."""
        return replace(self._read, namespace=pod.namespace)

    def new(self, pod: PodInfo, name: str) -> v1.ResourceClaim:
        """Return the object to create for a pod."""
        claim = v1.ResourceClaim(spec=self.spec)
        meta = claim.metadata
        meta.namespace, meta.name = pod.namespace, name
        meta.annotations[EXTENDED_RESOURCE_CLAIM] = "true"
        add_owner(meta, pod.pod).controller = True
        return claim


@once_per_class
def may_need_devices(pod: PodInfo) -> bool:
    """Return whether a DeviceClass may provide a resource that the pod requests."""
    return any(map(may_be_devices, pod.cls.requests))


def provided(pod: PodInfo, classes: Mapping[str, str]) -> tuple[Provided, ...]:
    """Return the requested resources that devices can provide, ordered by name.

    ``classes``: the DeviceClass of each resource.
    """
    requests = pod.cls.requests
    names = sorted(name for name in requests.keys() & classes.keys() if requests[name])
    return tuple(Provided(name, classes[name]) for name in names)


def extended_claim(cls: PodClass, lacking: tuple[Provided, ...]) -> ExtendedClaim:
    """Return the claim for the resources that a node lacks, which must be ordered by name."""
    known: dict[tuple[Provided, ...], ExtendedClaim] = cls.compiled.setdefault(_CLAIMS, {})
    found = known.get(lacking)
    if found is None:
        found = known[lacking] = _make(cls.spec, lacking)
    return found


def names_for(pod: PodInfo) -> Iterator[str]:
    """Yield names for the claim of a pod; a claim of an earlier attempt may still have one."""
    for number in itertools.count():
        unique = f"{pod.uid}/extended-resources/{number}"
        yield generated_name(f"{pod.name}-extended-resources-", unique)


class _Request(NamedTuple):
    name: str
    device_class: str
    amount: int


def _make(spec: v1.PodSpec, lacking: Iterable[Provided]) -> ExtendedClaim:
    requests: list[_Request] = []
    mappings: list[v1.ContainerExtendedResourceRequest] = []
    for one in lacking:
        of_resource, of_containers = _requests_for(spec, one)
        requests += of_resource
        mappings += of_containers
    made = v1.ResourceClaim(metadata=v1.ObjectMeta(name=IN_MEMORY))
    for request in sorted(requests):
        exactly = made.spec.devices.requests.add(name=request.name).exactly
        exactly.device_class_name = request.device_class
        exactly.allocation_mode, exactly.count = EXACT_COUNT, request.amount
    serialized = made.spec.SerializeToString(deterministic=True)
    return ExtendedClaim(made.spec, serialized, mappings, read_resource_claim(made))


def _requests_for(
    spec: v1.PodSpec, one: Provided
) -> tuple[list[_Request], list[v1.ContainerExtendedResourceRequest]]:
    """Return the requests for a resource, and the requests that each container uses."""
    containers = [*spec.init_containers, *spec.containers]
    ending = [
        index
        for index, container in enumerate(spec.init_containers)
        if container.restart_policy != _ALWAYS
    ]
    # Containers that run until the pod ends, sidecars among them, need devices of their own.
    lasting: dict[int, _Request] = {}
    used: list[tuple[int, str]] = []
    for index, container in enumerate(containers):
        count = _count(container, one.resource)
        if index not in ending and count:
            lasting[index] = _request(index, container, one, count)
            used.append((index, lasting[index].name))
    # An init container that ends first uses devices of containers that have not started yet. What
    # it lacks then is a request of its own, and as these containers run one after another, all of
    # them share the largest of these requests.
    largest: _Request | None = None
    used_by_ending: list[tuple[int, str]] = []
    own_names: set[str] = set()
    for index in ending:
        count = _count(containers[index], one.resource)
        for later in range(index, len(containers)):
            if count > 0 and later in lasting:
                used_by_ending.append((index, lasting[later].name))
                count -= lasting[later].amount
        if count > 0:
            request = _request(index, containers[index], one, count)
            used_by_ending.append((index, request.name))
            own_names.add(request.name)
            if largest is None or request.amount > largest.amount:
                largest = request
    if largest is not None:
        shared = largest.name
        used_by_ending = [(i, shared if n in own_names else n) for i, n in used_by_ending]
    mappings = [
        v1.ContainerExtendedResourceRequest(
            container_name=containers[index].name,
            resource_name=one.resource,
            request_name=name,
        )
        for index, name in (*used, *used_by_ending)
    ]
    return [*([largest] if largest is not None else ()), *lasting.values()], mappings


def _count(container: v1.Container, resource: str) -> int:
    text = container.resources.requests.get(resource)
    return 0 if text is None else int(parse(text))


def _request(index: int, container: v1.Container, one: Provided, count: int) -> _Request:
    """Return the request of a container; its name has the indexes of container and resource."""
    place = sorted(container.resources.requests).index(one.resource)
    return _Request(f"container-{index}-request-{place}", one.device_class, count)
