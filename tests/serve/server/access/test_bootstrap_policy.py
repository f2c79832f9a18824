"""The roles that every cluster has."""

from __future__ import annotations

import pytest

from podsched.api.kinds import KINDS, kind_of
from podsched.api.validation import validate
from podsched.serve.server.access.bootstrap_policy import CLUSTER_ROLES, bootstrap_policy
from podsched.serve.server.access.controller_roles import controller_roles
from podsched.serve.server.rest import visibility
from podsched.serve.server.rest.resource_metrics import METRICS, METRICS_KINDS
from podsched.serve.server.rest.reviews import REVIEWS
from podsched.serve.server.rest.visibility import QUEUES
from podsched.v1 import api_pb2 as v1
from support.access_world import calling, identity
from support.api_world import World

OF_CONTROLLERS = {name: rules for name, _, rules in controller_roles()}


@pytest.mark.parametrize("name", [*CLUSTER_ROLES, *OF_CONTROLLERS])
def test_roles_speak_of_kinds_that_there_are(name: str) -> None:
    served = {(kind.plural, kind.group) for kind in KINDS.values()}
    served |= {(plural, group) for (group, _), kinds in REVIEWS.items() for plural in kinds}
    served |= {(plural, METRICS) for plural in METRICS_KINDS}
    served |= {(plural, visibility.GROUP) for plural in QUEUES}
    for _, named_groups, resources in (*CLUSTER_ROLES.get(name, ()), *OF_CONTROLLERS.get(name, ())):
        for resource in resources if named_groups else ():
            plural = resource.partition("/")[0]
            named = {(plural, group) for group in named_groups}
            assert plural == "*" or named & served, resource


def test_they_are_valid_objects() -> None:
    for item in bootstrap_policy():
        assert [e for e in validate(kind_of(item), item) if "metadata" not in e.path] == []


async def test_a_server_creates_them_at_its_start(world: World) -> None:
    page = await world.core.lister.page(v1.ListRequest(kind="ClusterRole"))
    assert {entry.key for entry in page.entries} == {*CLUSTER_ROLES, *OF_CONTROLLERS}


async def test_one_that_was_changed_stays_as_it_is(world: World) -> None:
    patch = v1.PatchRequest(kind="ClusterRole", name="view", merge_patch=b'{"rules": null}')
    await world.core.registry.patch([patch], None)
    other = await world.another()
    entry = await other.registry.get("ClusterRole", "", "view")
    assert not entry.message.rules  # type: ignore[union-attr]


@pytest.mark.parametrize("role", ["admin", "edit", "view", "submitter"])
def test_no_role_of_users_may_bind_or_touch_nodes_and_leases(role: str) -> None:
    resources = {r for _, _, named in CLUSTER_ROLES[role] for r in named}
    assert not resources & {"pods/binding", "pods/status", "nodes", "leases", "*"}


def test_who_may_edit_workloads_may_scale_them() -> None:
    """As with Kubernetes' role; kubectl scale changes nothing else."""
    scales = {r: verbs for verbs, _, named in CLUSTER_ROLES["edit"] for r in named if "/" in r}
    assert {"patch", "update"} <= set(scales["deployments/scale"])


async def test_a_controller_of_kube_controller_manager_has_the_rights_of_its_own(
    world: World,
) -> None:
    account = "system:serviceaccount:kube-system:deployment-controller"
    with calling(world.core, identity(account)) as rights:
        assert rights.permit("create", "apps", "replicasets", "default", "")
        assert not rights.permit("create", "", "pods", "default", "")
    with calling(world.core, identity("system:kube-controller-manager")) as rights:
        assert rights.permit("create", "", "serviceaccounts/token", "kube-system", "x")
        assert rights.permit("update", "coordination.k8s.io", "leases", "kube-system", "kcm")
        assert not rights.permit("update", "coordination.k8s.io", "leases", "kube-node-lease", "n")


async def test_the_scheduler_keeps_leases_in_its_own_namespace(world: World) -> None:
    with calling(world.core, identity("system:kube-scheduler")) as rights:
        group = "coordination.k8s.io"
        assert rights.permit("create", group, "leases", "kube-system", "replica-0")
        assert not rights.permit("create", group, "leases", "kube-node-lease", "n1")
        assert not rights.permit("create", "apps", "deployments", "default", "web")
        assert not rights.permit("delete", "", "nodes", "", "n1")
