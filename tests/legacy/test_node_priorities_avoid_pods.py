"""NodePreferAvoidPodsPriority: the annotation, read and unreadable."""

from __future__ import annotations

import json

import pytest

from podsched.api.objects import Pod
from podsched.framework.nodes import PREFER_AVOID_PODS
from podsched.legacy.node_priorities import NodePreferAvoidPodsPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, scored

CONTROLLER = {"kind": "ReplicaSet", "uid": "7", "name": "web", "controller": True}
AVOIDED = json.dumps({"preferAvoidPods": [{"podSignature": {"podController": CONTROLLER}}]})


def owned(kind: str, uid: str) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid, "controller": True}
    return pod("p", ownerReferences=[owner])


def points(pending: Pod, annotation: str) -> int:
    annotated = node("n")
    annotated.metadata.annotations[PREFER_AVOID_PODS] = annotation
    found = scored(NodePreferAvoidPodsPriority(), pending, cluster(annotated))
    assert found is not None
    return found["n"]


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        (owned("ReplicaSet", "7"), 0),
        (owned("ReplicaSet", "8"), 100),
        (owned("ReplicationController", "7"), 100),
        (owned("StatefulSet", "7"), 100),
        (pod("p"), 100),
    ],
)
def test_pods_of_a_listed_controller_are_avoided(pending: Pod, expected: int) -> None:
    assert points(pending, AVOIDED) == expected


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "7", '{"preferAvoidPods": 3}', '{"preferAvoidPods": [{}]}']
)
def test_an_unreadable_annotation_avoids_no_pod(text: str) -> None:
    assert points(owned("ReplicaSet", "7"), text) == 100


def test_a_node_that_gets_the_annotation_is_scored_anew() -> None:
    state = cluster(node("n"))
    before = state.columns.position
    annotated = node("n")
    annotated.metadata.annotations[PREFER_AVOID_PODS] = AVOIDED
    state.columns.update_node(annotated)
    assert state.columns.changed_since(before) is not None
    assert state.columns.position != before
