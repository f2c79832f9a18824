"""Runs allocation cases: JSON documents with a node, the cluster's devices and a pod's claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from podsched.api import codec
from podsched.api.objects import Message
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.documents import (
    amount_of,
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from podsched.plugins.dynamic_resources.errors import (
    AllocationAborted,
    AllocationError,
    InvalidPools,
)
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    Fault,
    Features,
    InUse,
    Node,
    PoolKey,
)
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors, SelectorCompiler
from podsched.v1 import objects_pb2 as v1

Document = Mapping[str, Any]
_M = TypeVar("_M", bound=Message)


def run_case(
    case: Document,
    compile_selector: SelectorCompiler,
    *,
    faults: Collection[Fault] = (),
    prune: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Return the result of a case: its name, the outcome, and the error or the allocations.

    The outcome is "allocated", "none" (they do not fit), "error", or "aborted" (by
    ``should_stop``). Raises KeyError, TypeError or ValueError if the document is not a case.
    """
    classes = map(read_device_class, _messages(v1.DeviceClass, case.get("classes")))
    candidates = Candidates(
        read_node(case["node"]),
        {device_class.name: device_class for device_class in classes},
        [read_resource_slice(one) for one in _messages(v1.ResourceSlice, case.get("slices"))],
        read_allocated_state(case.get("allocated") or {}),
        Features.of(case.get("features") or ()),
        RememberedSelectors(compile_selector),
    )
    allocator = Allocator(candidates, faults=faults, prune=prune)
    claims = [read_resource_claim(one) for one in _messages(v1.ResourceClaim, case.get("claims"))]
    result: dict[str, Any] = {"name": case.get("name", ""), "allocations": None}
    try:
        allocations = allocator.allocate(claims, should_stop)
    except AllocationError as error:
        outcome = "aborted" if isinstance(error, AllocationAborted) else "error"
        result |= {"outcome": outcome, "error": str(error)}
        if isinstance(error, InvalidPools):
            result["onlyThisNode"] = True
        return result
    if allocations is None:
        return result | {"outcome": "none"}
    return result | {"outcome": "allocated", "allocations": list(map(codec.write, allocations))}


def _messages(kind: type[_M], documents: Iterable[Document] | None) -> list[_M]:
    return [message(kind(), document) for document in documents or ()]


def message(made: _M, document: Document) -> _M:
    """Read a document onto a new message, and return this. Raises ValueError."""
    reader = codec.Reader()
    reader.read(made, document, made.DESCRIPTOR.name)
    for problem in reader.problems:
        raise ValueError(f"{problem.path}: {problem.reason}")
    return made


def read_node(document: Document) -> Node:
    """Read the name and labels of a Node."""
    metadata = document["metadata"]
    return Node(name=metadata["name"], labels=metadata.get("labels"))


def read_allocated_state(document: Document) -> AllocatedState:
    """Read the devices in use; the fields are ``devices``, ``sharedDevices`` and ``capacity``."""
    found: dict[PoolKey, dict[str, InUse]] = {}

    def use(of: Document) -> InUse:
        pool = found.setdefault((of["driver"], of["pool"]), {})
        return pool.setdefault(of["device"], InUse())

    for device in document.get("devices") or ():
        use(device).exclusive = 1
    for device in document.get("sharedDevices") or ():
        use(device).shares += 1
    for device in document.get("capacity") or ():
        consumed = (device.get("consumed") or {}).items()
        use(device).capacity = {name: amount_of(amount) for name, amount in consumed}
    return found
