"""Clusters with devices and claims, made up by hypothesis, and selectors that need no CEL."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from podsched.api.cel.errors import EvaluationError
from podsched.plugins.dynamic_resources.model import Device

DRIVERS = ("a.example", "b.example")
GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAListTypeAttributes",
)
Document = dict[str, Any]


class AttributeSelector:
    """``name=value``: the device has this string; ``name``: fails without the attribute."""

    def __init__(self, expression: str) -> None:
        self._name, _, self._value = expression.partition("=")

    def matches(self, driver: str, device: Device) -> bool:
        attribute = device.attributes.get(self._name)
        if self._value:
            return attribute == {"string": self._value}
        if attribute is None:
            raise EvaluationError(f"no such key: {self._name}")
        return True


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    """Documents with any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _rarely(value: Any, otherwise: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([otherwise] * 5 + [value])


attributes = _some(
    model=st.sampled_from([{"string": "x"}, {"string": "y"}]),
    numa=st.sampled_from([{"int": 0}, {"int": 1}]),
    links=st.sampled_from([{"strings": ["p", "q"]}, {"strings": ["q", "r"]}, {"string": "r"}]),
)
capacity = st.fixed_dictionaries(
    {
        "memory": st.fixed_dictionaries(
            {"value": st.sampled_from(["4Gi", "6Gi"])},
            optional={
                "requestPolicy": st.sampled_from(
                    [
                        {"default": "1Gi"},
                        {
                            "default": "2Gi",
                            "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"},
                        },
                        {"default": "2Gi", "validValues": ["2Gi", "4Gi"]},
                    ]
                )
            },
        )
    },
    optional={"lanes": st.just({"value": "3"})},
)
consumption = st.lists(
    st.builds(
        lambda name, amount: {"counterSet": name, "counters": {"slices": {"value": str(amount)}}},
        st.sampled_from(["gpu-0", "gpu-1"]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=1,
)
devices = st.lists(
    st.fixed_dictionaries(
        {"attributes": attributes},
        optional={
            "capacity": capacity,
            "consumesCounters": consumption,
            "allowMultipleAllocations": st.booleans(),
            "taints": st.just([{"key": "broken", "effect": "NoSchedule"}]),
            "bindingConditions": st.just(["Attached"]),
        },
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def pools(draw: st.DrawFn) -> list[Document]:
    """Slices of up to two pools: counters and devices in one slice each."""
    slices = []
    for number in range(draw(st.integers(1, 2))):
        driver = draw(st.sampled_from(DRIVERS))
        pool = {"name": f"pool-{draw(st.integers(0, 1))}", "generation": 1}
        pool["resourceSliceCount"] = draw(_rarely(3, 2))
        of_pool = {"driver": driver, "pool": pool, "nodeName": "node"}
        counters = [{"name": f"gpu-{n}", "counters": {"slices": {"value": "3"}}} for n in (0, 1)]
        named = [{"name": f"dev-{n}"} | of for n, of in enumerate(draw(devices))]
        for name, content in (("c", {"sharedCounters": counters}), ("d", {"devices": named})):
            slices.append({"metadata": {"name": f"{name}-{number}"}, "spec": of_pool | content})
    return slices


selectors = st.lists(
    st.sampled_from(["model=x", "model=y", "model"]).map(lambda of: {"cel": {"expression": of}}),
    max_size=1,
)
_wanted = {
    "deviceClassName": st.sampled_from(["any", "x"]),
    "allocationMode": _rarely("All", "ExactCount"),
    "count": st.integers(1, 3),
}
_options = {
    "selectors": selectors,
    "tolerations": st.just([{"key": "broken", "operator": "Exists"}]),
    "capacity": st.sampled_from([{"requests": {"memory": "2Gi"}}, {"requests": {"lanes": "1"}}]),
}
exactly = st.fixed_dictionaries(_wanted, optional=_options | {"adminAccess": st.just(True)})
alternatives = st.lists(
    st.fixed_dictionaries(_wanted, optional=_options), min_size=1, max_size=2
).map(lambda of: [{"name": f"alt-{n}"} | one for n, one in enumerate(of)])
requests = st.one_of(
    exactly.map(lambda of: {"exactly": of}),
    exactly.map(lambda of: {"exactly": of}),
    alternatives.map(lambda of: {"firstAvailable": of}),
)
constraints = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"requests": st.sampled_from([["req-0"], ["req-1"], ["req-0", "req-1"]])},
    ).flatmap(
        lambda of: st.sampled_from(
            [
                of | {kind: f"a.example/{name}"}
                for kind in ("matchAttribute", "distinctAttribute")
                for name in ("model", "numa", "links")
            ]
        )
    ),
    max_size=2,
)


@st.composite
def claims(draw: st.DrawFn) -> list[Document]:
    """One or two claims of one to three requests."""
    return [
        {
            "metadata": {"name": f"claim-{number}"},
            "spec": {
                "devices": {
                    "requests": [
                        {"name": f"req-{n}"} | of
                        for n, of in enumerate(draw(st.lists(requests, min_size=1, max_size=3)))
                    ],
                    "constraints": draw(constraints),
                }
            },
        }
        for number in range(draw(st.integers(1, 2)))
    ]


@st.composite
def cases(draw: st.DrawFn) -> Document:
    """Allocation cases, as ``podsched.plugins.dynamic_resources.cases`` runs them."""
    off = draw(st.sampled_from([*GATES, *[""] * 15]))
    slices = draw(pools())
    names = [
        {"driver": of["spec"]["driver"], "pool": of["spec"]["pool"]["name"], "device": "dev-1"}
        for of in slices
    ]
    allocated = draw(
        st.sampled_from(
            [
                {},
                {"devices": names[:1]},
                {"capacity": [of | {"consumed": {"memory": "1Gi"}} for of in names[:1]]},
            ]
        )
    )
    return {
        "name": "made up",
        "features": [gate for gate in GATES if gate != off],
        "node": {"metadata": {"name": "node"}},
        "classes": [
            {"metadata": {"name": "any"}, "spec": {}},
            {
                "metadata": {"name": "x"},
                "spec": {"selectors": [{"cel": {"expression": "model=x"}}]},
            },
        ],
        "slices": slices,
        "allocated": allocated,
        "claims": draw(claims()),
    }
