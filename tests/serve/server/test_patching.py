"""Patches: what a strategic merge makes of lists."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import AnyObject
from podsched.serve.server.errors import ApiError
from podsched.serve.server.patching import parse_patch, patched
from podsched.v1 import objects_pb2 as v1
from podsched.v1.api_pb2 import JSON_MERGE_PATCH, STRATEGIC_MERGE_PATCH, PatchRequest


def _pod(*names: str) -> v1.Pod:
    pod = v1.Pod()
    for name in names:
        pod.spec.containers.add(name=name, image=f"{name}:1")
    return pod


def _merged(message: AnyObject, *containers: dict[str, Any]) -> list[tuple[str, str]]:
    patch = {"spec": {"containers": list(containers)}}
    result = patched(message, patch, STRATEGIC_MERGE_PATCH)
    assert isinstance(result, v1.Pod)
    return [(container.name, container.image) for container in result.spec.containers]


def test_an_item_of_a_known_key_is_patched_in_its_place() -> None:
    assert _merged(_pod("a", "b"), {"name": "a", "image": "a:2"}) == [("a", "a:2"), ("b", "b:1")]


def test_items_of_new_keys_come_first_and_one_that_comes_twice_is_merged() -> None:
    added = _merged(_pod("a"), {"name": "c", "image": "c:1"}, {"name": "c", "image": "c:2"})
    assert added == [("c", "c:2"), ("a", "a:1")]


def test_the_selector_of_a_budget_is_replaced() -> None:
    budget = v1.PodDisruptionBudget()
    budget.spec.selector.match_labels["app"] = "web"
    patch = {"spec": {"selector": {"matchLabels": {"tier": "front"}}}}
    result = patched(budget, patch, STRATEGIC_MERGE_PATCH)
    assert isinstance(result, v1.PodDisruptionBudget)
    assert result.spec.selector.match_labels == {"tier": "front"}


def test_an_item_can_be_deleted_and_added_again() -> None:
    deleted = {"name": "a", "$patch": "delete"}
    assert _merged(_pod("a", "b"), deleted) == [("b", "b:1")]
    again = _merged(_pod("a", "b"), deleted, {"name": "a", "image": "a:9"})
    assert again == [("a", "a:9"), ("b", "b:1")]


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(ApiError, match="does not have the merge key name"):
        _merged(_pod("a"), {"image": "a:2"})


def test_what_a_patch_takes_away_is_gone() -> None:
    """By null, and by what it retains."""
    pod = _pod("a")
    pod.metadata.labels.update(a="1", b="2")
    pod.spec.node_selector["zone"] = "x"
    patch = {"metadata": {"labels": {"a": None}}, "spec": {"$retainKeys": ["containers"]}}
    result = patched(pod, patch, STRATEGIC_MERGE_PATCH)
    assert isinstance(result, v1.Pod)
    assert result.metadata.labels == {"b": "2"}
    assert not result.spec.node_selector
    assert result.spec.containers == pod.spec.containers


def test_of_items_that_share_a_key_only_the_first_is_patched() -> None:
    twice = _merged(_pod("a", "a"), {"name": "a", "image": "a:2"})
    assert twice == [("a", "a:2"), ("a", "a:1")]


def test_a_key_is_looked_up_once_for_each_item() -> None:
    """Searching the list for each item is quadratic: this patch would take minutes."""
    new = [{"name": f"c{number}", "image": "i"} for number in range(9_000)]
    assert len(_merged(_pod("a"), *new)) == 9_001


def test_an_object_in_the_place_of_a_text_is_refused() -> None:
    with pytest.raises(ApiError, match="image"):
        _merged(_pod("a"), {"name": "a", "image": {"b": 1}})


@pytest.mark.parametrize("name", ["env", "finalizers"])
def test_a_label_may_be_called_as_a_list_that_is_merged(name: str) -> None:
    pod = _pod("a")
    pod.metadata.labels[name] = "prod"
    with pytest.raises(ApiError, match=name):
        patched(pod, {"metadata": {"labels": {name: [{"name": "x"}]}}}, STRATEGIC_MERGE_PATCH)


def test_finalizers_are_a_set_and_looked_up_once_each() -> None:
    """Searching the list for each finalizer is quadratic: this patch would take minutes."""
    pod = _pod("a")
    pod.metadata.finalizers.extend(f"old-{number}" for number in range(9000))
    added = ["new", "old-1", "new", *(f"old-{number % 9000}" for number in range(200_000))]
    result = patched(pod, {"metadata": {"finalizers": added}}, STRATEGIC_MERGE_PATCH)
    assert sorted(result.metadata.finalizers) == sorted([*pod.metadata.finalizers, "new"])


def _nested(depth: int) -> PatchRequest:
    inner = b'{"a":' * (depth - 3) + b"1" + b"}" * (depth - 3)
    return PatchRequest(merge_patch=b'{"metadata":{"managedFields":[' + inner + b"]}}")


@pytest.mark.parametrize("patch_type", [JSON_MERGE_PATCH, STRATEGIC_MERGE_PATCH])
def test_a_patch_of_100_levels_is_merged(patch_type: int) -> None:
    pod = patched(_pod("a"), parse_patch(_nested(100)), patch_type)
    assert pod.metadata.managed_fields[0].fields["a"].HasField("struct_value")


@pytest.mark.parametrize("depth", [101, 500, 900, 40_000])
def test_a_deeper_patch_is_refused(depth: int) -> None:
    """Merging costs the square of the depth: 900 levels took seconds."""
    with pytest.raises(ApiError, match=r"nested more than [15]00 levels deep"):
        parse_patch(_nested(depth))
