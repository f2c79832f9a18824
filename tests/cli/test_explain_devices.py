"""``sched explain`` for pods with claims: which devices a node lacks, and by what."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.commands import Commands
from support.hollow_dump import claim, node, pod, request

H100 = "h100.example.com"
Explain = Callable[..., str]


@pytest.fixture
def explain(tmp_path: Path, sched: Commands, monkeypatch: pytest.MonkeyPatch) -> Explain:
    monkeypatch.setenv("COLUMNS", "200")

    def run(*items: Any, nodes: Sequence[str] = ()) -> str:
        path = tmp_path / "dump.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items]}))
        asked = [word for name in nodes for word in ("--node", name)]
        return " ".join(sched.ok("explain", "pod", "web", "-f", str(path), *asked).split())

    return run


def test_a_node_with_too_few_free_devices_lacks_some(explain: Explain) -> None:
    used = claim("used", [request("r", H100)], on="a/gpu-0,a/gpu-1,a/gpu-2")
    asked = claim("mine", [request("gpus", H100, 2)])
    text = explain(*node("a", f"4x{H100}"), used, asked, pod("web", "mine"))
    assert "cannot allocate all claims" in text
    assert (
        "claim mine, request gpus: devices that are free (on a gpu-0, gpu-1, gpu-2: in use by "
        "claim default/used for pod user-of-used): lacks 1 of 2, has 1" in text
    )
    assert "devices of class" not in text


def test_of_more_nodes_than_are_measured_the_free_devices_are_counted(explain: Explain) -> None:
    items: list[Any] = []
    for number in range(1, 20):
        name = f"n{number:02}"
        items += node(name, f"5x{H100}")
        taken = ",".join(f"{name}/gpu-{bit}" for bit in range(5) if number >> bit & 1)
        items.append(claim(f"of-{name}", [request("r", H100)], on=taken))
    asked = claim("mine", [request("gpus", H100, 5)])
    text = explain(*items, asked, pod("web", "mine"))
    assert ": lacks 1 to 4 of 5; n01 has 4 (16 nodes)" in text
    assert (
        "claim mine, request gpus: suitable devices that are free: lacks 2 to 3 of 5; "
        "n17 has 3 (3 nodes)" in text
    )


def test_a_selector_that_no_device_matches_is_told_with_a_value(explain: Explain) -> None:
    wants = f'device.attributes["{H100}"].model == "a100"'
    asked = claim("mine", [request("gpus", H100, 1, wants)])
    text = explain(*node("a", f"4x{H100}"), asked, pod("web", "mine"))
    assert f"devices that match {wants} (gpu-0 of a has model h100): lacks 1 of 1, has 0" in text
    assert "devices that are free" not in text


def test_of_a_selector_with_several_terms_the_false_one_is_told(explain: Explain) -> None:
    model = f'device.attributes["{H100}"].model == "h100"'
    memory = f'device.capacity["{H100}"].memory.isGreaterThan(quantity("90Gi"))'
    asked = claim("mine", [request("gpus", H100, 1, f"{model} && {memory}")])
    text = explain(*node("a", f"4x{H100}"), asked, pod("web", "mine"))
    assert f"({memory} is false of gpu-0 of a, which has memory 80Gi): lacks 1 of 1" in text


def test_each_device_of_a_node_that_is_asked_for_is_explained(explain: Explain) -> None:
    used = claim("used", [request("r", H100)], on="a/gpu-1")
    wants = f'device.attributes["{H100}"].index < 3'
    asked = claim("mine", [request("gpus", H100, 3, wants)])
    items = [*node("a", f"4x{H100}"), *node("b", f"1x{H100}:nic")[:2]]
    text = explain(*items, used, asked, pod("web", "mine"), nodes=("a", "b"))
    assert f"gpu-3: {wants} is false: it has index 3" in text
    assert "gpu-1: in use by claim default/used for pod user-of-used" in text
    assert "gpu-0, gpu-2: free and suitable" in text
    assert f"nic-0: {wants} is false: it has index 0" not in text


def test_a_selector_that_fails_on_a_device_is_told_with_its_error(explain: Explain) -> None:
    wants = f'device.attributes["{H100}"].size > 3'
    asked = claim("mine", [request("gpus", H100, 1, wants)])
    text = explain(*node("a", f"4x{H100}"), asked, pod("web", "mine"), nodes=("a",))
    assert "claim default/mine: selector #0: CEL runtime error: no such key: size" in text


def test_the_selector_of_a_class_that_fails_on_a_device_is_told_with_the_class(
    explain: Explain,
) -> None:
    wants = f'device.attributes["{H100}"].size > 3'
    spec = {"selectors": [{"cel": {"expression": wants}}]}
    of_class = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": spec}
    asked = claim("mine", [request("gpus", "large", 1)])
    items = [*node("a", f"4x{H100}"), {**of_class, "metadata": {"name": "large"}}]
    text = explain(*items, asked, pod("web", "mine"), nodes=("a",))
    assert "gpu-3: class large: selector #0: CEL runtime error: no such key: size" in text


def test_the_least_that_could_be_changed_in_a_claim_is_told(explain: Explain) -> None:
    wants = f'device.attributes["{H100}"].index > 0'
    same = {"matchAttribute": f"{H100}/nvlinkDomain"}
    asked = claim("mine", [request("gpus", H100, 5, wants)], constraints=[same])
    text = explain(*node("a", f"8x{H100}"), asked, pod("web", "mine"))
    assert "in claim mine, ask for 4 in place of 5 devices in request gpus: 1 node" in text
    dropped = f"drop the constraint that all devices have the same {H100}/nvlinkDomain"
    assert f"in claim mine, {dropped}: 1 node" in text
    assert "drop selector" not in text
    wants = f'device.attributes["{H100}"].model == "a100"'
    asked = claim("mine", [request("gpus", H100, 2, wants)])
    text = explain(*node("a", f"8x{H100}"), asked, pod("web", "mine"))
    assert f"in claim mine, drop selector {wants} of request gpus: 1 node" in text
    assert "in place of" not in text


def test_a_constraint_is_told_with_the_largest_group_that_satisfies_it(explain: Explain) -> None:
    same = {"matchAttribute": f"{H100}/nvlinkDomain"}
    asked = claim("mine", [request("gpus", H100, 6)], constraints=[same])
    text = explain(*node("a", f"8x{H100}"), asked, pod("web", "mine"))
    assert f"claim mine: free devices of the same {H100}/nvlinkDomain: lacks 2 of 6, has 4" in text


def test_devices_that_share_counters_may_fit_one_by_one_only(explain: Explain) -> None:
    half = f'device.attributes["{H100}"].profile == "3g.40gb"'
    asked = claim("mine", [request("big", H100, 3, half)])
    text = explain(*node("a", f"2x{H100}:mig"), asked, pod("web", "mine"))
    assert "cannot allocate" not in text
    whole = f'device.attributes["{H100}"].profile == "7g.80gb"'
    asked = claim("mine", [request("big", H100, 3, half), request("whole", H100, 1, whole)])
    text = explain(*node("a", f"2x{H100}:mig"), asked, pod("web", "mine"))
    assert "devices for all requests of its claims at once" in text


def test_a_what_if_world_gives_no_device_twice(tmp_path: Path, sched: Commands) -> None:
    claims = [claim(f"c{n}", [request("gpus", H100, 3)]) for n in range(3)]
    pods = [pod(f"p{n}", f"c{n}") for n in range(3)]
    items = [*node("a", f"4x{H100}"), *node("b", f"4x{H100}")[:2], *claims]
    for name, of in (("dump", items), ("pods", pods)):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": of})
        (tmp_path / f"{name}.json").write_text(text)
    done = sched(
        "simulate", "-f", str(tmp_path / "dump.json"), "--pod", str(tmp_path / "pods.json"),
        "-o", "json",
    )  # fmt: skip
    assert done.code == 1, "the third pod does not fit"
    placed = {each["pod"]: each.get("node", "") for each in json.loads(done.out)["pods"]}
    assert sorted(placed.values(), key=str) == ["", "a", "b"]


def test_one_more_node_like_another_brings_its_devices(explain: Explain) -> None:
    used = claim("used", [request("r", H100)], on="a/gpu-0,a/gpu-1,a/gpu-2")
    asked = claim("mine", [request("gpus", H100, 2)])
    plain = [item for item in node("b", f"2x{H100}") if item["kind"] == "Node"]
    text = explain(*node("a", f"4x{H100}"), *plain, used, asked, pod("web", "mine"))
    assert "add a node like a (cpu 16, memory 64Gi, 4 devices)" in text
    assert "add a node like b" not in text


def test_the_fewest_users_of_devices_to_delete_are_told(explain: Explain) -> None:
    users, claims = [], []
    for index, priority in enumerate((5, 1, 3)):
        user = pod(f"user-{index}", f"used-{index}")
        user["spec"] |= {"nodeName": "a", "priority": priority}
        used = claim(f"used-{index}", [request("r", H100)], on=f"a/gpu-{index}")
        used["status"]["reservedFor"][0]["name"] = f"user-{index}"
        user["metadata"]["uid"] = used["status"]["reservedFor"][0]["uid"] = f"uid-{index}"
        users.append(user)
        claims.append(used)
    asked = claim("mine", [request("gpus", H100, 2)])
    text = explain(*node("a", f"4x{H100}"), *users, *claims, asked, pod("web", "mine"))
    assert "delete pod default/user-1 on node a: 1 node" in text
    asked = claim("mine", [request("gpus", H100, 3)])
    text = explain(*node("a", f"4x{H100}"), *users, *claims, asked, pod("web", "mine"))
    assert "delete pods default/user-1, default/user-2 on node a, perhaps less: 1 node" in text
    asked = claim("mine", [request("gpus", H100, 5)])
    text = explain(*node("a", f"4x{H100}"), *users, *claims, asked, pod("web", "mine"))
    assert "delete pod" not in text
