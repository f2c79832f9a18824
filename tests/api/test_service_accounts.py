"""The ServiceAccount of a pod, and the volume with its token."""

from __future__ import annotations

import pytest

from podsched.api.codec import object_json
from podsched.api.objects import Pod, ServiceAccount
from podsched.api.service_accounts import (
    TOKEN_PATH,
    apply_service_account,
    mirror_pod_refusal,
    set_default_account,
)

VOLUME = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {
            "downwardAPI": {
                "items": [
                    {
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        "path": "namespace",
                    }
                ]
            }
        },
    ],
}


def pod_with(*containers: str) -> Pod:
    found = Pod(metadata={"name": "web", "namespace": "default", "uid": "u"})
    for name in containers or ("main",):
        found.spec.containers.add(name=name)
    return found


def test_a_pod_without_an_account_has_the_default_one() -> None:
    pod = pod_with()
    assert set_default_account(pod) == "default"
    assert (pod.spec.service_account_name, pod.spec.service_account) == ("default", "default")


def test_the_former_field_names_the_account_too() -> None:
    pod = pod_with()
    pod.spec.service_account = "builder"
    assert set_default_account(pod) == "builder"
    assert pod.spec.service_account_name == "builder"


def test_every_container_mounts_the_token() -> None:
    pod = pod_with("a", "b")
    pod.spec.init_containers.add(name="first")
    apply_service_account(pod, ServiceAccount())
    (volume,) = pod.spec.volumes
    assert volume.name.startswith("kube-api-access-") and len(volume.name) == 21
    assert object_json(volume.projected) == VOLUME
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        (mount,) = container.volume_mounts
        assert (mount.name, mount.mount_path) == (volume.name, TOKEN_PATH)
        assert mount.read_only


def test_a_container_that_mounts_something_else_there_keeps_it() -> None:
    pod = pod_with("own", "main")
    pod.spec.containers[0].volume_mounts.add(name="mine", mount_path=TOKEN_PATH)
    apply_service_account(pod, None)
    assert [m.name for m in pod.spec.containers[0].volume_mounts] == ["mine"]
    assert len(pod.spec.containers[1].volume_mounts) == 1


def test_a_pod_in_which_all_containers_mount_something_else_gets_no_volume() -> None:
    pod = pod_with()
    pod.spec.containers[0].volume_mounts.add(name="mine", mount_path=TOKEN_PATH)
    apply_service_account(pod, None)
    assert not pod.spec.volumes


def test_a_volume_of_another_servers_admission_is_used() -> None:
    pod = pod_with()
    pod.spec.volumes.add(name="kube-api-access-abcde")
    apply_service_account(pod, None)
    assert [v.name for v in pod.spec.volumes] == ["kube-api-access-abcde"]
    assert pod.spec.containers[0].volume_mounts[0].name == "kube-api-access-abcde"


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [
        (None, None, True),
        (None, False, False),
        (None, True, True),
        (False, True, False),
        (True, False, True),
    ],
)
def test_the_pod_says_before_its_account_whether_to_mount_the_token(
    of_pod: bool | None, of_account: bool | None, mounted: bool
) -> None:
    pod, account = pod_with(), ServiceAccount()
    if of_pod is not None:
        pod.spec.automount_service_account_token = of_pod
    if of_account is not None:
        account.automount_service_account_token = of_account
    apply_service_account(pod, account)
    assert bool(pod.spec.volumes) is mounted


def test_a_pod_inherits_the_accounts_pull_secrets_unless_it_has_its_own() -> None:
    account, own = ServiceAccount(), pod_with()
    account.image_pull_secrets.add(name="of-account")
    own.spec.image_pull_secrets.add(name="own")
    bare = pod_with()
    for pod in (own, bare):
        apply_service_account(pod, account)
    assert [s.name for s in own.spec.image_pull_secrets] == ["own"]
    assert [s.name for s in bare.spec.image_pull_secrets] == ["of-account"]


def test_a_mirror_pod_may_use_no_account_token_or_secret() -> None:
    plain, account, secret, token = (pod_with() for _ in range(4))
    account.spec.service_account_name = "builder"
    secret.spec.volumes.add(name="s", secret={"secretName": "s"})
    apply_service_account(token, None)
    assert [mirror_pod_refusal(pod) for pod in (plain, account, secret, token)] == [
        "",
        "a mirror pod may not reference service accounts",
        "a mirror pod may not reference secrets",
        "a mirror pod may not use service account token volume projections",
    ]
