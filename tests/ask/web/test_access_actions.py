"""What the page can do, and that no name becomes another path."""

from __future__ import annotations

import json

import pytest

from podsched.ask.web.access import act, review


def test_a_cordon_is_a_patch_of_the_node_alone() -> None:
    asked = act("cordon", "node-0")
    assert asked is not None
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/nodes/node-0")
    assert json.loads(asked.body) == {"spec": {"unschedulable": True}}
    back = act("uncordon", "node-0")
    assert back is not None and json.loads(back.body) == {"spec": {"unschedulable": None}}


def test_a_deletion_names_one_pod() -> None:
    asked = act("delete", "default/web-0")
    assert asked is not None
    assert (asked.method, asked.path) == ("DELETE", "/api/v1/namespaces/default/pods/web-0")


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("delete", "web-0"),
        ("delete", "default/web-0/status"),
        ("delete", "default/.."),
        ("delete", "default/web-0?gracePeriodSeconds=0"),
        ("delete", "/"),
        ("cordon", "../pods/x"),
        ("cordon", "default/node"),
        ("cordon", ""),
        ("cordon", "n" * 300),
        ("drain", "node-0"),
    ],
)
def test_nothing_else_is_an_action(verb: str, name: str) -> None:
    assert act(verb, name) is None


def test_a_review_asks_about_all_namespaces() -> None:
    spec = json.loads(review("get", "pods", "explain").body)["spec"]["resourceAttributes"]
    assert spec == {"verb": "get", "group": "", "resource": "pods", "subresource": "explain"}
    of_a_group = review("list", "podgroups", group="scheduling.k8s.io")
    spec = json.loads(of_a_group.body)["spec"]["resourceAttributes"]
    assert (spec["group"], spec["resource"]) == ("scheduling.k8s.io", "podgroups")
