"""Strategic merge patches: lists with keys, directives, order."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.serve.server.strategic import PatchError, strategic_merge

TWO = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}


@pytest.mark.parametrize(
    ("why", "current", "patch", "expected"),
    [
        (
            "an item is found by its key, the others stay",
            TWO,
            {"containers": [{"name": "b", "image": "2"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
        ),
        (
            "a new item comes first",
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "b"}]},
            {"containers": [{"name": "b"}, {"name": "a"}]},
        ),
        (
            "the items of the patch get its order, and the others stay before what they preceded",
            TWO,
            {"containers": [{"name": "b"}, {"name": "new"}]},
            {"containers": [*TWO["containers"], {"name": "new"}]},
        ),
        (
            "so do the values of a set",
            {"finalizers": ["x/a", "x/b", "x/c"]},
            {"finalizers": ["x/c", "x/b"]},
            {"finalizers": ["x/a", "x/c", "x/b"]},
        ),
        (
            "an item is deleted by its key",
            TWO,
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b", "image": "1"}]},
        ),
        (
            "an order decides which item stands where",
            {"conditions": [{"type": "A"}]},
            {
                "$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}],
                "conditions": [{"type": "B"}],
            },
            {"conditions": [{"type": "A"}, {"type": "B"}]},
        ),
        (
            "an item that the order does not name stays before the one that it preceded",
            {"conditions": [{"type": "S"}, {"type": "A"}, {"type": "T"}, {"type": "B"}]},
            {
                "$setElementOrder/conditions": [{"type": "N"}, {"type": "A"}, {"type": "B"}],
                "conditions": [{"type": "N"}],
            },
            {"conditions": [{"type": t} for t in ("N", "S", "A", "T", "B")]},
        ),
        (
            "a list of strings has an order as well",
            {"finalizers": ["s", "x", "t", "y", "u"]},
            {"$setElementOrder/finalizers": ["y", "x"]},
            {"finalizers": ["s", "t", "y", "x", "u"]},
        ),
        (
            "values are taken out of a list of strings",
            {"finalizers": ["x", "y"]},
            {"$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"]},
            {"finalizers": ["z", "y"]},
        ),
        (
            "a map is replaced",
            {"m": {"a": 1}},
            {"m": {"$patch": "replace", "b": 2}},
            {"m": {"b": 2}},
        ),
        ("other keys go", {"m": {"a": 1, "b": 2}}, {"m": {"$retainKeys": ["a"]}}, {"m": {"a": 1}}),
        ("null removes", {"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        (
            "a list that takes the place of a number has an order",
            {"a": 1},
            {"$retainKeys": [], "a": [2, 1], "$setElementOrder/a": [1, 2]},
            {"a": [1, 2]},
        ),
        (
            "a list without key is replaced",
            {"taints": [{"key": "a"}]},
            {"taints": []},
            {"taints": []},
        ),
        (
            "of the addresses that a kubelet tells, those that stay are not told again",
            {"hostIPs": [{"ip": "10.0.0.1"}]},
            {
                "$setElementOrder/hostIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "hostIPs": [{"ip": "fd00::1"}],
            },
            {"hostIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        ),
        (
            "secrets of an account are merged by their name",
            {"secrets": [{"name": "a"}]},
            {"secrets": [{"name": "b"}]},
            {"secrets": [{"name": "b"}, {"name": "a"}]},
        ),
        (
            "an item that stands twice is deleted twice",
            {"env": [{"name": "a", "value": "1"}, {"name": "b"}, {"name": "a", "value": "2"}]},
            {"env": [{"name": "a", "$patch": "delete"}]},
            {"env": [{"name": "b"}]},
        ),
        (
            "ports are merged by the key that they have",
            {"ports": [{"port": 1, "name": "x"}]},
            {"ports": [{"port": 1, "name": "y"}]},
            {"ports": [{"port": 1, "name": "y"}]},
        ),
    ],
)
def test_a_patch_does_what_kubernetes_does(
    why: str, current: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert strategic_merge(current, patch) == expected, why


@pytest.mark.parametrize(
    ("kind", "current", "patch", "expected"),
    [
        (
            "EndpointSlice",
            {"ports": [{"port": 53, "protocol": "TCP"}]},
            {"ports": [{"port": 80, "name": None}, {"name": "any"}]},
            {"ports": [{"port": 80}, {"name": "any"}]},
        ),
        (
            "PodDisruptionBudget",
            {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
            {"spec": {"selector": {"matchLabels": {"tier": "front"}}}},
            {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"tier": "front"}}}},
        ),
        (
            "ServiceAccount",
            {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "a"}]},
            {"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "b"}]},
            {"secrets": [{"name": "b"}, {"name": "a"}], "imagePullSecrets": [{"name": "b"}]},
        ),
        (
            "Service",
            {"spec": {"selector": {"app": "web"}, "ports": [{"port": 53}]}},
            {"spec": {"selector": {"tier": "front"}, "ports": [{"port": 80}]}},
            {
                "spec": {
                    "selector": {"app": "web", "tier": "front"},
                    "ports": [{"port": 80}, {"port": 53}],
                }
            },
        ),
    ],
)
def test_what_a_kind_replaces_as_a_whole_is_merged_in_others(
    kind: str, current: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert strategic_merge(current, patch, kind) == expected


def test_a_patch_whose_types_do_not_fit_is_refused() -> None:
    with pytest.raises(PatchError):
        strategic_merge({"labels": {"a": "b"}}, {"labels": "none"})


@pytest.mark.parametrize("retained", [1, "ab", {"a": 1}])
def test_what_is_retained_is_a_list_of_names(retained: Any) -> None:
    with pytest.raises(PatchError, match="retainKeys"):
        strategic_merge({"a": 1, "b": 2}, {"$retainKeys": retained})


class _Text(str):
    """Counts comparisons."""

    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Text.compared += 1
        return str.__eq__(self, other)


def test_taking_values_out_of_a_list_costs_no_more_than_reading_both() -> None:
    args = [_Text(number) for number in range(1000)]
    values = [_Text(-number) for number in range(1000)]
    merged = strategic_merge({"args": args}, {"$deleteFromPrimitiveList/args": values})
    assert merged["args"] == args[1:]
    assert _Text.compared < 3000
