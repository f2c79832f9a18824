"""What the search may not leave out, choice by choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podsched.plugins.dynamic_resources.cases import run_case
from support.device_world import GATES, AttributeSelector, Document

DRIVER = "a.example"


def device(name: str, **attributes: str | int) -> Document:
    kinds = {str: "string", int: "int"}
    return {
        "name": name,
        "attributes": {key: {kinds[type(of)]: of} for key, of in attributes.items()},
    }


def wanting(count: int = 1, selector: str = "", **more: Any) -> Document:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    wanted = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count}
    return wanted | {"selectors": selectors} | more


def case_of(
    devices: Sequence[Document],
    requests: Sequence[Document | list[Document]],
    counters: Sequence[Document] = (),
    constraints: Sequence[Document] = (),
    allocated: str = "",
) -> Document:
    """One pool and one claim; a list of requests stands for the first available."""
    pool = {"name": "p", "resourceSliceCount": 2 if counters else 1}
    of_pool = {"driver": DRIVER, "pool": pool, "allNodes": True}
    specs = [{"devices": devices}, *([{"sharedCounters": counters}] if counters else [])]
    return {
        "features": GATES,
        "node": {"metadata": {"name": "node"}},
        "classes": [{"metadata": {"name": "any"}}],
        "slices": [
            {"metadata": {"name": f"s{n}"}, "spec": of_pool | spec} for n, spec in enumerate(specs)
        ],
        "allocated": {
            "devices": [{"driver": DRIVER, "pool": "p", "device": allocated}] if allocated else []
        },
        "claims": [
            {
                "metadata": {"name": "c"},
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": f"r{n}"}
                            | (
                                {
                                    "firstAvailable": [
                                        {"name": f"a{k}"} | o for k, o in enumerate(of)
                                    ]
                                }
                                if isinstance(of, list)
                                else {"exactly": of}
                            )
                            for n, of in enumerate(requests)
                        ],
                        "constraints": list(constraints),
                    }
                },
            }
        ],
    }


def outcome(case: Document, *, prune: bool = True) -> str:
    """The devices by request, the error, or "none"."""
    result = run_case(case, AttributeSelector, prune=prune)
    if result["allocations"] is None:
        return str(result.get("error", "none"))
    results = result["allocations"][0]["devices"]["results"]
    return " ".join(f"{of['request']}={of['device']}" for of in results)


def consumption(counter_set: str, amount: int) -> Document:
    return {"counterSet": counter_set, "counters": {"slices": {"value": str(amount)}}}


def two_sets(*names: str) -> list[Document]:
    return [consumption(name, 1) for name in names]


def counted(name: str, counter_set: str, amount: int, **attributes: str | int) -> Document:
    consumed = [consumption(counter_set, amount)]
    return device(name, **attributes) | {"consumesCounters": consumed}


def shared(name: str, memory: str) -> Document:
    """A device whose shares take 2Gi each."""
    capacity = {"memory": {"value": memory, "requestPolicy": {"default": "2Gi"}}}
    return device(name) | {"capacity": capacity, "allowMultipleAllocations": True}


def slices_of(*names: str, total: int = 2) -> list[Document]:
    return [{"name": name, "counters": {"slices": {"value": str(total)}}} for name in names]


CASES = {
    "a selector's error is met before a request that nothing satisfies": (
        case_of(
            [device("a", model="x"), device("b", model="x"), device("c")],
            [wanting(), wanting(selector="model"), wanting(selector="model=y")],
        ),
        "claim c: selector #0: CEL runtime error: no such key: model",
    ),
    "an earlier request holds the device": (
        case_of([device("a", model="x"), device("b")], [wanting(), wanting(selector="model=x")]),
        "r0=b r1=a",
    ),
    "an earlier request holds the counters": (
        case_of(
            [
                counted("a", "g0", 1, model="x"),
                counted("b", "g1", 1, model="x"),
                counted("c", "g0", 2),
            ],
            [wanting(selector="model=x"), wanting(selector="model=x"), wanting(selector="")],
            slices_of("g0", "g1", total=3),
        ),
        "r0=a r1=b r2=c",
    ),
    "only the second counter set leaves enough for the last request": (
        case_of(
            [
                counted("a", "g0", 1, model="x"),
                counted("b", "g1", 1, model="x"),
                counted("c", "g0", 2, model="y"),
            ],
            [wanting(selector="model=x"), wanting(selector="model=y")],
            slices_of("g0", "g1"),
        ),
        "r0=b r1=c",
    ),
    "equal counter sets but for one device": (
        case_of(
            [
                counted("a", "g0", 1, model="x"),
                counted("b", "g1", 1, model="x"),
                counted("c", "g0", 1, model="x"),
                counted("d", "g1", 2, model="y"),
            ],
            [wanting(2, "model=x"), wanting(selector="model=y")],
            slices_of("g0", "g1"),
        ),
        "r0=a r0=c r1=d",
    ),
    "counter sets are equal only while nothing is taken of them": (
        case_of(
            [
                counted("a", "g0", 1, model="x"),
                counted("b", "g0", 1, model="z"),
                counted("c", "g0", 2, model="y"),
                counted("d", "g1", 1, model="x"),
                counted("e", "g1", 1, model="z"),
                counted("f", "g1", 2, model="y"),
            ],
            [wanting(selector="model=x"), wanting(selector="model=z"), wanting(2, "model=y")],
            slices_of("g0", "g1", total=3),
        ),
        "r0=a r1=e r2=c r2=f",
    ),
    "the same devices held in another order": (
        case_of(
            [
                device("a", w0="y", w1="y", w2="y", w3="y"),
                device("b", w0="y", w1="y", w2="y"),
                device("c", w0="y"),
                device("d", w3="y"),
            ],
            [wanting(selector=f"w{n}=y") for n in range(4)],
        ),
        "r0=c r1=a r2=b r3=d",
    ),
    "a device that needs less of the same counters": (
        case_of(
            [
                counted("a", "g0", 2, model="x"),
                counted("b", "g0", 1, model="x"),
                counted("c", "g0", 2, model="y"),
            ],
            [wanting(selector="model=x"), wanting(selector="model=y")],
            slices_of("g0", total=3),
        ),
        "r0=b r1=c",
    ),
    "a shareable device with more capacity": (
        case_of([shared("a", "2Gi"), shared("b", "4Gi")], [wanting(), wanting(2)]),
        "r0=b r1=a r1=b",
    ),
    "an admin takes what is in use, and leaves what is free": (
        case_of(
            [device("a"), device("b")],
            [wanting(adminAccess=True), wanting()],
            allocated="b",
        ),
        "r0=b r1=a",
    ),
    "an admin takes what is in use also after a request that takes the rest": (
        case_of(
            [device("a"), device("b")],
            [wanting(), wanting(adminAccess=True)],
            allocated="a",
        ),
        "r0=b r1=a",
    ),
    "of two counter sets that are in use one leaves enough": (
        case_of(
            [
                counted("a", "g0", 1, model="x"),
                counted("b", "g0", 1, model="z"),
                counted("c", "g0", 2, model="y"),
                counted("d", "g1", 2, model="x"),
                counted("e", "g1", 1, model="z"),
            ],
            [wanting(2, "model=x"), wanting(selector="model=z"), wanting(selector="model=y")],
            slices_of("g0", "g1", total=3),
        ),
        "r0=a r0=d r1=e r2=c",
    ),
    "a device of two counter sets keeps all of them apart": (
        case_of(
            [
                counted("a", "g0", 2, model="x"),
                counted("b", "g0", 1, model="x"),
                counted("c", "g0", 2, model="y"),
                device("d") | {"consumesCounters": two_sets("g0", "g1")},
            ],
            [wanting(selector="model=x"), wanting(selector="model=y")],
            slices_of("g0", "g1", total=3),
        ),
        "r0=b r1=c",
    ),
    "an unknown value is distinct only as the first": (
        case_of(
            [
                device("a", w0="y", w1="y"),
                device("b", w1="y") | {"attributes": {"w1": {"string": "y"}, "n": {}}},
            ],
            [wanting(selector="w0=y"), wanting(selector="w1=y")],
            constraints=[{"distinctAttribute": f"{DRIVER}/n", "requests": ["r1"]}],
        ),
        "r0=a r1=b",
    ),
    "an earlier request holds a constraint's value": (
        case_of(
            [device("a", numa=0), device("b", numa=1), device("c", numa=1, model="x")],
            [wanting(), wanting(selector="model=x")],
            constraints=[{"matchAttribute": f"{DRIVER}/numa"}],
        ),
        "r0=b r1=c",
    ),
    "taints tell apart what is else equal": (
        case_of(
            [
                device("a", model="x"),
                device("b", model="x") | {"taints": [{"key": "t", "effect": "NoSchedule"}]},
            ],
            [
                wanting(tolerations=[{"key": "t", "operator": "Exists"}]),
                wanting(selector="model=x"),
            ],
        ),
        "r0=b r1=a",
    ),
    "a device that was given back is looked at for the next request": (
        case_of(
            [
                device("a") | {"taints": [{"key": "t", "effect": "NoSchedule"}]},
                device("b"),
                device("c") | {"taints": [{"key": "t", "effect": "NoSchedule"}]},
            ],
            [wanting(2, tolerations=[{"key": "t", "operator": "Exists"}]), wanting()],
        ),
        "r0=a r0=c r1=b",
    ),
    "a device that a constraint keeps from one request is looked at for the next": (
        case_of(
            [
                device("a"),
                device("b", model="x", numa=0),
                device("c", model="x", numa=1),
                device("d", model="x", numa=1),
                device("e"),
            ],
            [wanting(2, "model=x"), wanting(), wanting()],
            constraints=[
                {"matchAttribute": f"{DRIVER}/numa", "requests": ["r0"]},
                {"matchAttribute": f"{DRIVER}/model", "requests": ["r1"]},
            ],
        ),
        "r0=c r0=d r1=b r2=a",
    ),
    "another alternative leaves a device": (
        case_of(
            [device("a", model="x"), device("b", model="x"), device("c", model="y")],
            [[wanting(2, "model=x"), wanting(selector="model=y")], wanting(selector="model=x")],
        ),
        "r0/a1=c r1=a",
    ),
    "an alternative of all devices that are none": (
        case_of(
            [device("a", model="x")],
            [[wanting(selector="model=z", allocationMode="All"), wanting()]],
        ),
        "r0/a1=a",
    ),
    "as many devices as a claim may have": (
        case_of([device(f"d{n:02}") for n in range(33)], [wanting(16), wanting(16)]),
        " ".join(f"r{n // 16}=d{n:02}" for n in range(32)),
    ),
}


@pytest.mark.parametrize("prune", [False, True], ids=["plain", "pruned"])
@pytest.mark.parametrize("name", CASES)
def test_the_search_finds_the_first_solution(name: str, prune: bool) -> None:
    case, expected = CASES[name]
    assert outcome(case, prune=prune) == expected


def test_partitions_of_equal_gpus_are_not_tried_gpu_by_gpu() -> None:
    """Nine and eight halves of sixteen GPUs: 11,440 ways to take nine, all equal."""
    names = [f"g{n:02}" for n in range(16)]
    halves = [counted(f"{name}-{n}", name, 4, model="x") for name in names for n in (0, 1)]
    case = case_of(
        halves, [wanting(9, "model=x"), wanting(8, "model=x")], slices_of(*names, total=7)
    )
    assert outcome(case) == "none"


def test_devices_with_counters_are_left_out_without_their_gate() -> None:
    devices = [device("a"), device("b"), counted("c", "g0", 1)]
    case = case_of(devices, [wanting(), wanting(2)], slices_of("g0"), allocated="c")
    case["features"] = [gate for gate in GATES if gate != "DRAPartitionableDevices"]
    case["slices"][0]["spec"]["pool"] = {"name": "p", "resourceSliceCount": 1}
    assert outcome(case) == outcome(case, prune=False) == "none"
    case["allocated"] = {"capacity": [{"driver": DRIVER, "pool": "p", "device": "c"}]}
    assert outcome(case) == outcome(case, prune=False) == "none"


@pytest.mark.parametrize("prune", [True, False], ids=["pruned", "plain"])
def test_an_admin_gets_the_devices_anew_for_each_claim(prune: bool) -> None:
    """Though a second request of the same claim does not get the device of the first."""
    case = case_of([device("a"), device("b")], [wanting(adminAccess=True)] * 2)
    second = {"metadata": {"name": "second"}, "spec": case["claims"][0]["spec"]}
    result = run_case(case | {"claims": [*case["claims"], second]}, AttributeSelector, prune=prune)
    found = [[of["device"] for of in one["devices"]["results"]] for one in result["allocations"]]
    assert found == [["a", "b"], ["a", "b"]]
