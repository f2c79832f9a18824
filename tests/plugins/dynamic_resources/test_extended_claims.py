"""What the claim for a pod's extended resources asks for, and which container uses what."""

from __future__ import annotations

from itertools import islice
from typing import Any

from podsched.plugins.dynamic_resources.extended_claims import (
    ExtendedClaim,
    Provided,
    extended_claim,
    names_for,
    provided,
)
from support.engine_world import pod
from support.plugin_world import info

GPU, NIC = "example.com/gpu", "example.com/nic"
OF_GPU, OF_NIC = Provided(GPU, "gpu"), Provided(NIC, "nic")


def container(name: str, *, always: bool = False, **amounts: int) -> dict[str, Any]:
    requests = {f"example.com/{of}" if of != "cpu" else of: str(n) for of, n in amounts.items()}
    made = {"name": name, "image": "x", "resources": {"requests": requests, "limits": requests}}
    return made | ({"restartPolicy": "Always"} if always else {})


def claim(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    lacking: tuple[Provided, ...] = (OF_GPU,),
) -> ExtendedClaim:
    spec = {"containers": list(containers), "initContainers": list(init)}
    return extended_claim(info(pod("p", spec)).cls, lacking)


def requests(of: ExtendedClaim) -> list[tuple[str, str, int]]:
    return [
        (one.name, one.exactly.device_class_name, one.exactly.count)
        for one in of.spec.devices.requests
    ]


def uses(of: ExtendedClaim) -> list[tuple[str, str, str]]:
    return [
        (one.container_name, one.resource_name.rpartition("/")[2], one.request_name)
        for one in of.mappings
    ]


def test_each_container_has_a_request_for_each_resource() -> None:
    made = claim(
        container("a", gpu=2, nic=1, cpu=1), container("b", gpu=1), lacking=(OF_GPU, OF_NIC)
    )
    assert requests(made) == [
        ("container-0-request-1", "gpu", 2),
        ("container-0-request-2", "nic", 1),
        ("container-1-request-0", "gpu", 1),
    ]
    assert uses(made) == [
        ("a", "gpu", "container-0-request-1"),
        ("b", "gpu", "container-1-request-0"),
        ("a", "nic", "container-0-request-2"),
    ]
    assert all(of.exactly.allocation_mode == "ExactCount" for of in made.spec.devices.requests)


def test_resources_that_the_node_has_are_left_out() -> None:
    made = claim(container("a", gpu=2, nic=1), lacking=(OF_NIC,))
    assert requests(made) == [("container-0-request-1", "nic", 1)]


def test_init_containers_use_the_devices_of_later_containers_and_more_where_they_need_more() -> (
    None
):
    made = claim(container("a", gpu=1), container("b", gpu=1), init=(container("i", gpu=3),))
    assert requests(made) == [
        ("container-0-request-0", "gpu", 1),
        ("container-1-request-0", "gpu", 1),
        ("container-2-request-0", "gpu", 1),
    ]
    assert uses(made)[2:] == [
        ("i", "gpu", "container-1-request-0"),
        ("i", "gpu", "container-2-request-0"),
        ("i", "gpu", "container-0-request-0"),
    ]


def test_init_containers_share_the_largest_request() -> None:
    init = (container("i", gpu=2), container("j", gpu=4), container("k", gpu=1))
    made = claim(container("a", gpu=1), init=init)
    assert requests(made) == [
        ("container-1-request-0", "gpu", 3),
        ("container-3-request-0", "gpu", 1),
    ]
    assert uses(made) == [
        ("a", "gpu", "container-3-request-0"),
        ("i", "gpu", "container-3-request-0"),
        ("i", "gpu", "container-1-request-0"),
        ("j", "gpu", "container-3-request-0"),
        ("j", "gpu", "container-1-request-0"),
        ("k", "gpu", "container-3-request-0"),
    ]


def test_sidecars_keep_their_devices_and_earlier_init_containers_use_them() -> None:
    init = (container("i", gpu=1), container("s", always=True, gpu=1), container("j", gpu=1))
    made = claim(container("a", cpu=1), init=init)
    assert requests(made) == [
        ("container-1-request-0", "gpu", 1),
        ("container-2-request-0", "gpu", 1),
    ]
    assert uses(made) == [
        ("s", "gpu", "container-1-request-0"),
        ("i", "gpu", "container-1-request-0"),
        ("j", "gpu", "container-2-request-0"),
    ]


def test_only_requested_resources_that_a_class_provides_are_provided() -> None:
    asked = info(pod("p", {"containers": [container("a", gpu=1, nic=0, cpu=1)]}))
    assert provided(asked, {GPU: "gpu", NIC: "nic", "example.com/tpu": "tpu"}) == (OF_GPU,)
    assert provided(asked, {}) == ()


def test_pods_of_a_class_share_what_is_computed() -> None:
    asked = info(pod("p", {"containers": [container("a", gpu=1)]}))
    assert extended_claim(asked.cls, (OF_GPU,)) is extended_claim(asked.cls, (OF_GPU,))


def test_names_tell_the_pod_fit_and_differ() -> None:
    names = list(islice(names_for(info(pod("p" * 63, {"containers": []}))), 3))
    assert len(set(names)) == 3
    assert all(name.startswith("p" * 58) and len(name) == 63 for name in names)
    assert next(names_for(info(pod("p", {"containers": []})))).startswith("p-extended-resources-")
