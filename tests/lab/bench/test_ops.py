"""Operations of workloads."""

from __future__ import annotations

from podsched.lab.bench.ops import Churn, CreatePods, CreateResourceDriver, reference
from podsched.lab.bench.templates import Template

POD = Template({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}})
SERVICE = Template({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {}})


def test_pods_get_names_and_a_namespace() -> None:
    pods = CreatePods(10, (POD,), "web", "shop").pods(8, 20)
    assert [reference(pod) for pod in pods] == [("Pod", "shop", "web-8"), ("Pod", "shop", "web-9")]


def test_churn_creates_one_more_of_each_template_at_each_tick() -> None:
    churn = Churn(1.0, (POD, SERVICE), prefix="c")
    made = [reference(item) for tick in range(2) for item in churn.step(tick).create]
    assert made == [
        ("Pod", "default", "c-0"), ("Service", "default", "c-0"),
        ("Pod", "default", "c-1"), ("Service", "default", "c-1"),
    ]  # fmt: skip


def test_churn_that_recreates_deletes_all_that_it_has_made() -> None:
    churn = Churn(1.0, (POD, SERVICE), recreate=True, number=3)
    there: set[tuple[str, str, str]] = set()
    for tick in range(12):
        step = churn.step(tick)
        made = {reference(item) for item in step.create}
        assert not made & there
        assert there.issuperset(step.delete)
        there = (there | made) - set(step.delete)
        assert len(there) == 2 * ([1, 2, 3, 2, 1, 0] * 2)[tick]


def test_a_resource_driver_publishes_devices_on_each_node() -> None:
    slices = list(CreateResourceDriver("gpu.example.com", 2, 3).slices())
    assert [of.spec.node_name for of in slices] == ["node-00000", "node-00001"]
    assert [device.name for device in slices[1].spec.devices] == [
        "device-0",
        "device-1",
        "device-2",
    ]
    assert len({of.metadata.name for of in slices}) == 2
