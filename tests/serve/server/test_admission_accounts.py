"""The ServiceAccounts of new pods, on servers that issue tokens and on those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.api.hollow_nodes import HOLLOW_LABEL
from podsched.api.objects import Pod, ServiceAccount
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.v1.api_pb2 import DeleteRequest
from support.api_objects import node, pod
from support.api_world import World
from support.service_accounts import account_settings


@pytest.fixture
async def issuing(world: World, tmp_path: Path) -> ServerCore:
    """A server with a signing key."""
    return await world.another(ServerSettings(service_accounts=account_settings(tmp_path)))


async def created(core: ServerCore, item: Pod) -> Pod:
    message = (await core.creator.create(item)).message
    assert isinstance(message, Pod)
    return message


def of_account(name: str) -> Pod:
    item = pod("web-1")
    item.spec.service_account_name = name
    return item


async def test_a_server_without_a_key_leaves_pods_as_they_are(world: World) -> None:
    spec = (await created(world.core, of_account("nobody"))).spec
    assert (spec.service_account_name, len(spec.volumes)) == ("nobody", 0)
    spec = (await created(world.core, pod("web-2"))).spec
    assert (spec.service_account_name, len(spec.volumes)) == ("", 0)


async def test_a_pod_mounts_the_token_of_the_default_account(issuing: ServerCore) -> None:
    """Also before the leader has made the account."""
    spec = (await created(issuing, pod())).spec
    assert spec.service_account_name == "default"
    assert spec.volumes[0].name.startswith("kube-api-access-")


async def test_a_pod_made_through_grpc_has_the_defaults_without_which_no_kubelet_starts_it(
    issuing: ServerCore,
) -> None:
    item = pod()
    variable = item.spec.containers[0].env.add(name="NAME")
    variable.value_from.update({"fieldRef": {"fieldPath": "metadata.name"}})
    item.spec.volumes.add(name="settings").config_map.update({"name": "settings"})
    spec = (await created(issuing, item)).spec
    assert spec.containers[0].env[0].value_from["fieldRef"]["apiVersion"] == "v1"
    assert spec.volumes[0].config_map["defaultMode"] == 0o644


async def test_a_pod_of_an_account_that_does_not_exist_is_refused(issuing: ServerCore) -> None:
    with pytest.raises(ApiError) as caught:
        await created(issuing, of_account("nobody"))
    assert caught.value.message == (
        'pods "web-1" is forbidden: error looking up service account default/nobody: '
        'serviceaccount "nobody" not found'
    )


async def test_an_account_made_through_another_server_is_known(
    world: World, issuing: ServerCore
) -> None:
    account = ServiceAccount(metadata={"namespace": "default", "name": "builder"})
    account.automount_service_account_token = False
    await world.core.creator.create(account)
    assert not (await created(issuing, of_account("builder"))).spec.volumes


async def test_a_mirror_pod_gets_no_account(issuing: ServerCore) -> None:
    mirror = pod()
    mirror.spec.node_name = "n1"
    mirror.metadata.annotations["kubernetes.io/config.mirror"] = "hash"
    spec = (await created(issuing, mirror)).spec
    assert (spec.service_account_name, len(spec.volumes)) == ("", 0)


async def test_a_mirror_pod_with_an_account_is_refused(issuing: ServerCore) -> None:
    mirror = of_account("default")
    mirror.metadata.annotations["kubernetes.io/config.mirror"] = "hash"
    with pytest.raises(ApiError, match="a mirror pod may not reference service accounts"):
        await created(issuing, mirror)


async def hollow_only(core: ServerCore) -> None:
    """Instead of its nodes the cluster has a hollow one."""
    for name in ("worker-1", "worker-2"):
        await core.deleter.delete(DeleteRequest(kind="Node", name=name))
    item = node("hollow-1")
    item.metadata.labels[HOLLOW_LABEL] = "true"
    await core.creator.create(item)
    await core.reflector.wait_until_fresh()


async def test_where_all_nodes_are_hollow_only_pods_of_kubernetes_api_mount_tokens(
    issuing: ServerCore,
) -> None:
    await hollow_only(issuing)
    assert not (await created(issuing, pod("of-grpc"))).spec.volumes
    entry = await issuing.creator.create(pod("of-rest"), of_kubernetes=True)
    assert isinstance(entry.message, Pod)
    assert entry.message.spec.volumes[0].name.startswith("kube-api-access-")


async def test_once_a_real_node_has_joined_all_pods_mount_tokens(issuing: ServerCore) -> None:
    await hollow_only(issuing)
    await issuing.creator.create(node("real-1"))
    await issuing.reflector.wait_until_fresh()
    assert (await created(issuing, pod())).spec.volumes
    await issuing.deleter.delete(DeleteRequest(kind="Node", name="real-1"))
    await issuing.reflector.wait_until_fresh()
    assert not (await created(issuing, pod("later"))).spec.volumes
