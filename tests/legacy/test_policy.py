"""Policy files: what they may say, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.legacy.policy import read_policy


def errors(**policy: Any) -> list[str]:
    return [str(error) for error in read_policy({"kind": "Policy", **policy})[1]]


def predicate(name: str = "Own", **argument: Any) -> dict[str, Any]:
    return {"name": name, "argument": argument}


def priority(name: str = "Own", weight: int = 1, **argument: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "argument": argument}


LABELS = {"labels": ["ssd"], "presence": True}
ONE_ARGUMENT = "priorities[0].argument: Invalid value: {}: exactly 1 priority argument is required"
WEIGHT = "should have a positive weight applied to it or it has overflown"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"predicates": [{}]}, ["predicates[0].name: Required value"]),
        (
            {"predicates": [{"name": "a b"}]},
            [
                'predicates[0].name: Invalid value: "a b": does not match the name validation '
                'regexp "^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])$"'
            ],
        ),
        (
            {"predicates": [predicate()]},
            ["predicates[0].argument: Invalid value: 0: exactly 1 predicate argument is required"],
        ),
        (
            {"predicates": [predicate(labelsPresence=LABELS, serviceAffinity={"labels": ["a"]})]},
            ["predicates[0].argument: Invalid value: 2: exactly 1 predicate argument is required"],
        ),
        (
            {"predicates": [predicate(labelsPresence={"labels": []})]},
            [
                "predicates[0].argument.labelsPresence.labels: Required value: "
                "at least one label must be specified"
            ],
        ),
        ({"priorities": [priority()]}, [ONE_ARGUMENT.format(0)]),
        (
            {"priorities": [priority(weight=0, labelPreference={"label": "a"})]},
            [f"priorities[0].weight: Invalid value: 0: {WEIGHT}"],
        ),
        (
            {"priorities": [{"name": "EqualPriority", "weight": (2**63 - 1) // 10}]},
            [f"priorities[0].weight: Invalid value: 922337203685477580: {WEIGHT}"],
        ),
        (
            {"priorities": [{"name": "EqualPriority", "weight": 2**31}]},
            [
                "priorities[0].weight: Invalid value: 2147483648: "
                "has no equivalent: a plugin's weight is at most 2147483647"
            ],
        ),
        (
            {"priorities": [priority(serviceAntiAffinity={})]},
            ["priorities[0].argument.serviceAntiAffinity.label: Required value"],
        ),
        (
            {"priorities": [priority(requestedToCapacityRatioArguments={})]},
            [
                "priorities[0].argument.requestedToCapacityRatioArguments.shape: "
                "Required value: at least one point must be specified"
            ],
        ),
        (
            {"hardPodAffinitySymmetricWeight": 101},
            ["hardPodAffinitySymmetricWeight: Invalid value: 101: must be in the range 0-100"],
        ),
        ({"predicate": []}, ["predicate: Unknown field"]),
        ({"apiVersion": "v2"}, ['apiVersion: Invalid value: "v2": must be v1']),
        (
            {"extenders": [{"httpTimeout": "1s"}]},
            ['extenders[0].httpTimeout: Invalid value: "1s": must be an integer'],
        ),
    ],
)
def test_a_mistake_is_told_with_its_field_path(policy: Any, expected: list[str]) -> None:
    assert errors(**policy) == expected


def test_a_shape_has_points_in_order_and_in_range() -> None:
    shape = [{"utilization": 50, "score": 11}, {"utilization": 20, "score": 0}]
    paths = {
        line.partition(": ")[0]
        for line in errors(
            priorities=[priority(requestedToCapacityRatioArguments={"shape": shape})]
        )
    }
    here = "priorities[0].argument.requestedToCapacityRatioArguments.shape"
    assert paths == {f"{here}[1].utilization", f"{here}[0].score"}


def test_all_mistakes_are_told_at_once() -> None:
    found = errors(
        predicates=[{"name": ""}, predicate()],
        priorities=[{"name": "LeastRequestedPriority"}],
        extenders=[{"nodeCacheCapable": "yes"}],
    )
    assert len(found) == 4


def test_keys_may_be_of_any_case() -> None:
    document = {
        "Kind": "Policy",
        "ApiVersion": "v1",
        "Extenders": [
            {"urlprefix": "http://e", "enableHTTPS": True, "TLSConfig": {"insecure": True}}
        ],
        "alwayscheckallpredicates": True,
        "PRIORITIES": [priority(RequestedToCapacityRatioArguments={"Shape": [{"Score": 3}]})],
    }
    policy, found = read_policy(document)
    assert found == []
    (extender,) = policy.extenders
    assert (extender.url_prefix, extender.enable_https) == ("http://e", True)
    assert policy.always_check_all_predicates
    assert policy.priorities is not None


def test_a_missing_list_is_not_an_empty_one() -> None:
    policy, _ = read_policy({"kind": "Policy", "predicates": [], "priorities": None})
    assert (policy.predicates, policy.priorities) == ((), None)
