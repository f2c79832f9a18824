"""What a pod asks of a node."""

from __future__ import annotations

from fractions import Fraction

import pytest

from podsched.api.objects import Pod
from podsched.api.resources import (
    CPU,
    RequestOptions,
    non_zero_requests,
    pod_requests,
    qos_class,
    requested_amounts,
    requests_in_units,
    score_requests,
    to_units,
)

MIB = 1024 * 1024


def pod(*containers: dict[str, str], init: tuple[tuple[str, dict[str, str]], ...] = ()) -> Pod:
    made = Pod()
    for index, requests in enumerate(containers):
        container = made.spec.containers.add(name=f"c{index}")
        container.resources.requests.update(requests)
    for index, (policy, requests) in enumerate(init):
        container = made.spec.init_containers.add(name=f"i{index}", restart_policy=policy)
        container.resources.requests.update(requests)
    return made


def test_containers_add_up_and_are_rounded_up_once() -> None:
    assert requests_in_units(pod({"cpu": "100500u"}, {"cpu": "100500u"})) == {"cpu": 201}


@pytest.mark.parametrize(("text", "sign"), [("9E", 1), ("-9E", -1)])
def test_sums_stay_within_int64(text: str, sign: int) -> None:
    assert requests_in_units(pod({"memory": text}, {"memory": text})) == {
        "memory": sign * (2**63 - 1)
    }


def test_an_init_container_counts_where_it_asks_for_more() -> None:
    made = pod({"cpu": "1", "memory": "1Gi"}, init=(("", {"cpu": "3"}), ("", {"cpu": "2"})))
    assert requests_in_units(made) == {"cpu": 3000, "memory": 1024 * MIB}


def test_a_sidecar_runs_beside_the_containers_and_later_init_containers() -> None:
    made = pod(
        {"cpu": "1"}, init=(("", {"cpu": "3"}), ("Always", {"cpu": "2"}), ("", {"cpu": "2"}))
    )
    assert requests_in_units(made) == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    made = pod({"cpu": "1"})
    made.spec.overhead["cpu"] = "250m"
    assert requests_in_units(made) == {"cpu": 1250}


def test_requests_of_the_pod_replace_those_of_its_containers() -> None:
    made = pod({"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"})
    made.spec.resources.requests["cpu"] = "3"
    assert requests_in_units(made) == {"cpu": 3000, "memory": 1024 * MIB, "example.com/gpu": 1}


def resized(condition: str) -> Pod:
    made = pod({"cpu": "3"})
    status = made.status.container_statuses.add(name="c0")
    status.resources.requests["cpu"] = "1"
    status.allocated_resources["cpu"] = "2"
    made.status.conditions.add(type="PodResizePending", reason=condition, status="True")
    return made


def test_a_pod_being_resized_counts_the_most_of_wanted_used_and_allocated() -> None:
    assert requests_in_units(resized("Deferred")) == {"cpu": 3000}


def test_an_infeasible_resize_does_not_count_what_is_wanted() -> None:
    assert requests_in_units(resized("Infeasible")) == {"cpu": 2000}


def test_containers_that_do_not_say_count_defaults_in_scores() -> None:
    assert non_zero_requests(pod({}, {"cpu": "0"})) == (100, 400 * MIB)


def test_init_containers_that_do_not_say_count_defaults_too() -> None:
    assert non_zero_requests(pod({"cpu": "50m"}, init=(("Always", {}),))) == (150, 400 * MIB)


def test_what_a_kubelet_reports_of_the_whole_pod_counts_for_what_the_pod_requests_as_a_whole() -> (
    None
):
    made = pod({"cpu": "1", "memory": "1Gi"})
    made.spec.resources.requests["cpu"] = "2"
    made.status.resources.requests.update({"cpu": "3", "memory": "9Gi"})
    assert requests_in_units(made) == {"cpu": 3000, "memory": 1024 * MIB}


def test_defaults_are_filled_in_only_for_resources_without_any_request() -> None:
    made = pod({}, {"memory": "10Mi"})
    made.spec.resources.requests["cpu"] = "2"
    assert non_zero_requests(made) == (2000, 10 * MIB)


def test_beside_pod_level_requests_a_request_of_0_is_a_request() -> None:
    made = pod({}, {"cpu": "0"})
    made.spec.resources.requests["memory"] = "10Mi"
    assert non_zero_requests(made) == (0, 10 * MIB)


def test_the_fit_score_ignores_pod_level_requests() -> None:
    made = pod({"cpu": "1"})
    made.spec.resources.requests["cpu"] = "2"
    assert score_requests(made) == {"cpu": 1000, "memory": 200 * MIB}


@pytest.mark.parametrize("init", [(), (("", {"cpu": "2"}),)])
@pytest.mark.parametrize(
    "requests",
    [{}, {"cpu": "50m"}, {"memory": "-1Mi"}, {"cpu": "1", "x/y": "2"}, {"cpu": "1", "memory": "0"}],
)
def test_all_amounts_read_in_one_step_are_those_read_one_by_one(
    requests: dict[str, str], init: tuple[tuple[str, dict[str, str]], ...]
) -> None:
    made = pod(requests, init=init)
    read = (requests_in_units(made), non_zero_requests(made), score_requests(made))
    assert requested_amounts(made) == read


def test_quality_of_service_follows_requests_and_limits() -> None:
    made = pod({})
    assert qos_class(made.spec) == "BestEffort"
    made = pod({"cpu": "1", "memory": "1Gi"})
    assert qos_class(made.spec) == "Burstable"
    made.spec.containers[0].resources.limits.update({"cpu": "1000m", "memory": "1Gi"})
    assert qos_class(made.spec) == "Guaranteed"


@pytest.mark.parametrize(
    "requests",
    [{}, {"cpu": "0"}, {"cpu": "1u", "memory": "0.5"}, {"memory": "1Gi", "a/b": "2"}],
)
def test_the_only_container_is_read_without_adding_up_and_counts_the_same(
    requests: dict[str, str],
) -> None:
    one, also = pod(requests), pod(requests, init=(("", {}),))
    for options in (RequestOptions(), RequestOptions(non_missing={CPU: Fraction(1, 3)})):
        assert requests_in_units(one, options) == to_units(pod_requests(one, options))
    assert requests_in_units(one) == requests_in_units(also)
