"""Runs allocation cases: JSON documents with a node, the cluster's devices and a pod's claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from podsched.api import codec
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.documents import (
    message,
    read_allocated_state,
    read_device_class,
    read_node,
    read_resource_claim,
    read_resource_slice,
)
from podsched.plugins.dynamic_resources.errors import (
    AllocationAborted,
    AllocationError,
    InvalidPools,
)
from podsched.plugins.dynamic_resources.model import Fault, Features
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler
from podsched.v1 import objects_pb2 as v1


def run_case(
    case: Mapping[str, Any],
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
    classes = [
        read_device_class(message(v1.DeviceClass(), document))
        for document in case.get("classes") or ()
    ]
    candidates = Candidates(
        read_node(case["node"]),
        {device_class.name: device_class for device_class in classes},
        [
            read_resource_slice(message(v1.ResourceSlice(), document))
            for document in case.get("slices") or ()
        ],
        read_allocated_state(case.get("allocated") or {}),
        Features.of(case.get("features") or ()),
        compile_selector,
    )
    allocator = Allocator(candidates, faults=faults, prune=prune)
    claims = [
        read_resource_claim(message(v1.ResourceClaim(), document))
        for document in case.get("claims") or ()
    ]
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
