"""What a kubelet may do through the REST API: its own Node, its own pods, and what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podsched.api.objects import (
    ConfigMap,
    CSIDriver,
    CSINode,
    Lease,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceSlice,
    Secret,
    ServiceAccount,
    VolumeAttachment,
)
from podsched.serve.server.pipeline import Pipeline
from support.access_world import identity
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient, Response
from support.service_accounts import Accounts

CORE = "/api/v1/namespaces/default"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


def kubelet(accounts: Accounts, node: str = "worker-1") -> KubeClient:
    caller = identity(f"system:node:{node}", "system:nodes")
    authorizer = accounts.world.core.authorizer
    pipeline = Pipeline(
        authenticate=lambda _: caller, authorize=authorizer.rights_of, prepare=authorizer.prepare
    )
    return KubeClient(accounts.world.core, pipeline, accounts.tokens)


@pytest.fixture
async def accounts(world: World, tmp_path: Path) -> Accounts:
    """web-1 on worker-1 uses secret, config, claim and builder; nothing uses the others."""
    found = Accounts(world, tmp_path)
    for name in ("mine", "other"):
        metadata = {"namespace": "default", "name": name}
        claim = PersistentVolumeClaim(metadata=metadata)
        claim.spec.access_modes.append("ReadWriteOnce")
        claim.spec.resources.requests["storage"] = "1Gi"
        for item in (Secret(metadata=metadata), ConfigMap(metadata=metadata), claim):
            await world.core.creator.create(item)
    account = ServiceAccount(metadata={"namespace": "default", "name": "builder"})
    web = pod("web-1")
    web.spec.node_name, web.spec.service_account_name = "worker-1", "builder"
    web.spec.volumes.add(name="s", secret={"secretName": "mine"})
    web.spec.volumes.add(name="c", config_map={"name": "mine"})
    web.spec.volumes.add(name="p").persistent_volume_claim.claim_name = "mine"
    for created in (account, web):
        await world.core.creator.create(created)
    await world.core.reflector.wait_until_fresh()
    return found


@pytest.mark.parametrize("plural", ["secrets", "configmaps", "persistentvolumeclaims"])
async def test_it_reads_what_its_pods_refer_to_and_nothing_else(
    accounts: Accounts, plural: str
) -> None:
    path = f"{CORE}/{plural}"
    assert (await kubelet(accounts).get(f"{path}/mine")).status == 200
    assert (await kubelet(accounts).get(f"{path}/other")).status == 403
    assert (await kubelet(accounts, "worker-2").get(f"{path}/mine")).status == 403
    assert (await kubelet(accounts).get(path)).status == 403


@pytest.mark.parametrize("plural", ["secrets", "configmaps"])
async def test_it_lists_and_watches_them_by_name(accounts: Accounts, plural: str) -> None:
    for query in ("", "&watch=true&timeoutSeconds=1"):
        path = f"{CORE}/{plural}?fieldSelector=metadata.name%3D"
        assert (await kubelet(accounts).get(f"{path}mine{query}")).status == 200
        refused = await kubelet(accounts).get(f"{path}other{query}")
        assert refused.status == 403
        assert f"cannot {'watch' if query else 'list'} resource" in refused.json["message"]


async def test_it_changes_none_of_them(accounts: Accounts) -> None:
    answer = await kubelet(accounts).request("DELETE", f"{CORE}/secrets/mine")
    assert answer.status == 403


async def test_what_a_removed_pod_used_is_no_longer_read(accounts: Accounts) -> None:
    assert (await kubelet(accounts).get(f"{CORE}/secrets/mine")).status == 200
    path = f"{CORE}/pods/web-1?gracePeriodSeconds=0"
    assert (await kubelet(accounts).request("DELETE", path)).status == 200
    await accounts.world.core.reflector.wait_until_fresh()
    assert (await kubelet(accounts).get(f"{CORE}/secrets/mine")).status == 403


# ------------------------------------------------------------------ tokens


async def token_for(
    accounts: Accounts, node: str = "worker-1", account: str = "builder", **spec: Any
) -> Response:
    path = f"{CORE}/serviceaccounts/{account}/token"
    return await kubelet(accounts, node).request("POST", path, {"spec": spec})


async def run(accounts: Accounts, name: str, *sources: dict[str, Any]) -> dict[str, str]:
    """Run a pod with a projected volume on worker-1; return a reference to it."""
    item = pod(name)
    item.spec.node_name, item.spec.service_account_name = "worker-1", "builder"
    if sources:
        item.spec.volumes.add(name="t", projected={"sources": list(sources)})
    await accounts.world.core.creator.create(item)
    await accounts.world.core.reflector.wait_until_fresh()
    return await accounts.reference(name)


async def test_it_gets_tokens_for_its_own_pods(accounts: Accounts) -> None:
    reference = await run(accounts, "api", {"serviceAccountToken": {"path": "token"}})
    answer = await token_for(accounts, boundObjectRef=reference)
    assert answer.status == 201, answer.json


async def test_it_gets_no_token_for_the_api_for_a_pod_without_one(accounts: Accounts) -> None:
    """As where the ServiceAccount's token is not to be mounted."""
    token = {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    for reference in (await run(accounts, "none"), await run(accounts, "vault", token)):
        refused = await token_for(accounts, boundObjectRef=reference)
        assert refused.status == 403, refused.json
        assert 'audience "" not found in pod spec volume' in refused.json["message"]
    answer = await token_for(accounts, boundObjectRef=reference, audiences=["vault"])
    assert answer.status == 201, answer.json


async def test_it_gets_no_token_for_the_pod_of_another_node(accounts: Accounts) -> None:
    other = pod("web-2")
    other.spec.node_name, other.spec.service_account_name = "worker-2", "builder"
    await accounts.world.core.creator.create(other)
    await accounts.world.core.reflector.wait_until_fresh()
    answer = await token_for(accounts, boundObjectRef=await accounts.reference("web-2"))
    assert answer.status == 403
    assert "a pod scheduled on a different node" in answer.json["message"]


async def test_it_gets_no_token_of_an_account_that_its_pods_do_not_use(
    accounts: Accounts,
) -> None:
    await accounts.world.core.creator.create(
        ServiceAccount(metadata={"namespace": "default", "name": "admin"})
    )
    answer = await token_for(accounts, account="admin")
    assert answer.status == 403
    assert 'cannot create resource "serviceaccounts/token"' in answer.json["message"]


async def test_its_tokens_are_bound_to_a_pod_and_its_uid(accounts: Accounts) -> None:
    unbound = await token_for(accounts)
    assert "node requested token not bound to a pod" in unbound.json["message"]
    reference = await accounts.reference()
    del reference["uid"]
    without = await token_for(accounts, boundObjectRef=reference)
    assert "a pod binding without a uid" in without.json["message"]


async def test_its_tokens_are_for_audiences_that_the_pod_names(accounts: Accounts) -> None:
    refused = await token_for(
        accounts, boundObjectRef=await accounts.reference(), audiences=["vault"]
    )
    assert 'audience "vault" not found in pod spec volume' in refused.json["message"]


@pytest.mark.parametrize("source", ["inline", "claim", "ephemeral"])
async def test_its_tokens_may_be_for_the_audiences_that_the_csi_driver_of_a_volume_names(
    accounts: Accounts, source: str
) -> None:
    create = accounts.world.core.creator.create
    driver = CSIDriver(metadata={"name": "vault.example"})
    driver.spec.token_requests.add()["audience"] = "vault"
    volume = PersistentVolume(metadata={"name": "pv"})
    volume.spec.capacity["storage"], volume.spec.access_modes[:] = "1Gi", ["ReadWriteOnce"]
    volume.spec.csi.driver, volume.spec.csi.volume_handle = "vault.example", "1"
    item = pod("csi")
    item.spec.node_name, item.spec.service_account_name = "worker-1", "builder"
    claim = PersistentVolumeClaim(metadata={"namespace": "default", "name": "csi-v"})
    claim.spec.access_modes[:], claim.spec.volume_name = ["ReadWriteOnce"], "pv"
    claim.spec.resources.requests["storage"] = "1Gi"
    mounted = item.spec.volumes.add(name="v")
    if source == "inline":
        mounted.csi.driver = "vault.example"
    elif source == "claim":
        mounted.persistent_volume_claim.claim_name = "csi-v"
    else:
        mounted.ephemeral.volume_claim_template.spec.CopyFrom(claim.spec)
    for each in (driver, volume, claim, item):
        await create(each)
    await accounts.world.core.reflector.wait_until_fresh()
    reference = await accounts.reference("csi")
    answer = await token_for(accounts, boundObjectRef=reference, audiences=["vault"])
    assert answer.status == 201, answer.json
    for audiences in (["other"], []):
        refused = await token_for(accounts, boundObjectRef=reference, audiences=audiences)
        assert refused.status == 403, refused.json


# ------------------------------------------------------------------ its Node and pods


async def test_it_changes_its_own_node_but_not_the_labels_that_attract_pods(
    accounts: Accounts,
) -> None:
    def patch(node: str, label: str) -> Any:
        body = {"metadata": {"labels": {label: "x"}}}
        return kubelet(accounts).request("PATCH", f"/api/v1/nodes/{node}", body, STRATEGIC)

    assert (await patch("worker-1", "topology.kubernetes.io/zone")).status == 200
    assert (await patch("worker-1", "node-restriction.kubernetes.io/secure")).status == 403
    assert (await patch("worker-2", "topology.kubernetes.io/zone")).status == 403


async def test_it_changes_the_status_of_its_own_pods_only(accounts: Accounts) -> None:
    body = {"status": {"phase": "Running"}}
    path = f"{CORE}/pods/web-1/status"
    assert (await kubelet(accounts).request("PATCH", path, body, STRATEGIC)).status == 200
    other = kubelet(accounts, "worker-2")
    assert (await other.request("PATCH", path, body, STRATEGIC)).status == 403


@pytest.mark.parametrize(
    "lie",
    [
        {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "other"}]},
        {"extendedResourceClaimStatus": {"resourceClaimName": "other", "requestMappings": []}},
    ],
)
async def test_it_does_not_say_which_claims_its_pods_use(
    accounts: Accounts, lie: dict[str, Any]
) -> None:
    """It could read and allocate any claim of the namespace."""
    path = f"{CORE}/pods/web-1/status"
    answer = await kubelet(accounts).request("PATCH", path, {"status": lie}, STRATEGIC)
    assert answer.status == 403
    assert "cannot update resource claim statuses" in answer.json["message"]


@pytest.mark.parametrize("query", ["", "?watch=true", "?fieldSelector=spec.nodeName%3Dworker-1"])
async def test_it_reads_the_pods_of_its_own_node_only(accounts: Accounts, query: str) -> None:
    own, other = kubelet(accounts), kubelet(accounts, "worker-2")
    assert (await own.get(f"{CORE}/pods/web-1")).status == 200
    assert (await other.get(f"{CORE}/pods/web-1")).status == 403
    assert (await other.get(f"/api/v1/pods{query}")).status == 403


async def test_it_reads_its_own_node_only(accounts: Accounts) -> None:
    own = kubelet(accounts, "worker-2")
    for asked in ("/worker-1", "", "?watch=true", "?fieldSelector=metadata.name%3Dworker-1"):
        answer = await own.get(f"/api/v1/nodes{asked}")
        assert answer.status == 403
        assert "only its own Node object" in answer.json["message"]
    assert (await own.get("/api/v1/nodes?fieldSelector=metadata.name%3Dworker-2")).status == 200


@pytest.mark.parametrize(
    ("more", "allowed"),
    [
        ({}, False),
        ({"fieldSelector": {"rawSelector": "spec.nodeName=worker-1"}}, False),
        ({"fieldSelector": {"rawSelector": "spec.nodeName=worker-2"}}, True),
        (
            {
                "fieldSelector": {
                    "requirements": [
                        {"key": "spec.nodeName", "operator": "In", "values": ["worker-2"]}
                    ]
                }
            },
            True,
        ),
        ({"fieldSelector": {"requirements": [7, {"operator": "In", "values": "worker-2"}]}}, False),
    ],
)
async def test_a_review_says_so(accounts: Accounts, more: dict[str, Any], allowed: bool) -> None:
    """The page asks such a review before it shows all pods."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods", **more}}
    answer = await kubelet(accounts, "worker-2").request("POST", path, {"spec": spec})
    assert answer.json["status"]["allowed"] is allowed


async def test_it_evicts_and_deletes_its_own_pods_only(accounts: Accounts) -> None:
    other, path = kubelet(accounts, "worker-2"), f"{CORE}/pods/web-1"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1"}}
    assert (await other.request("POST", f"{path}/eviction", eviction)).status == 403
    assert (await other.request("DELETE", path)).status == 403
    assert (await other.request("DELETE", f"{CORE}/pods")).status == 403
    assert (await kubelet(accounts).request("DELETE", path)).status == 200


async def test_it_renews_no_lease_of_another_node(accounts: Accounts) -> None:
    for namespace, name in (("kube-node-lease", "worker-1"), ("kube-system", "kube-scheduler")):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        body = {"metadata": {"name": name}, "spec": {"holderIdentity": "me"}}
        other = kubelet(accounts, "worker-2")
        assert (await other.request("POST", path, body)).status == 403
        assert (await other.request("DELETE", f"{path}/{name}")).status in (403, 404)


@pytest.mark.parametrize("amount", ["-1", "9" * 5000, "1e5000", "0x10", "NaN"])
@pytest.mark.parametrize("field", ["capacity", "allocatable"])
async def test_an_amount_that_cannot_be_is_refused(
    accounts: Accounts, field: str, amount: str
) -> None:
    body = {"status": {field: {"cpu": amount, "memory": amount, "pods": amount}}}
    path = "/api/v1/nodes/worker-1/status"
    answer = await kubelet(accounts).request("PATCH", path, body, STRATEGIC)
    assert answer.status in (400, 422), answer.json
    assert len(answer.body) < 3000


async def test_it_creates_its_own_csi_node_only(accounts: Accounts) -> None:
    path = "/apis/storage.k8s.io/v1/csinodes"
    own, other = ({"metadata": {"name": n}, "spec": {"drivers": []}} for n in ("worker-1", "x"))
    assert (await kubelet(accounts).request("POST", path, own)).status == 201
    assert (await kubelet(accounts).request("POST", path, other)).status == 403


@pytest.fixture
async def stored(accounts: Accounts) -> Accounts:
    """An object of each kind for worker-1; the volume "mine" is that of web-1's claim."""
    creator = accounts.world.core.creator
    await creator.create(Lease(metadata={"namespace": "kube-node-lease", "name": "worker-1"}))
    await creator.create(CSINode(metadata={"name": "worker-1"}))
    attachment = VolumeAttachment(metadata={"name": "mine"})
    attachment.spec.attacher, attachment.spec.node_name = "csi.example.com", "worker-1"
    attachment.spec.source.persistent_volume_name = "mine"
    await creator.create(attachment)
    pool = {"name": "p", "resource_slice_count": 1}
    spec = {"driver": "gpu.example.com", "node_name": "worker-1", "pool": pool}
    await creator.create(ResourceSlice(metadata={"name": "mine"}, spec=spec))
    for name in ("mine", "other"):
        volume = PersistentVolume(metadata={"name": name})
        volume.spec.access_modes.append("ReadWriteOnce")
        volume.spec.capacity["storage"] = "1Gi"
        volume.spec.host_path.update({"path": "/data"})
        volume.spec.claim_ref.namespace, volume.spec.claim_ref.name = "default", name
        await creator.create(volume)
    await accounts.world.core.reflector.wait_until_fresh()
    return accounts


@pytest.mark.parametrize(
    "path",
    [
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1",
        "/apis/storage.k8s.io/v1/csinodes/worker-1",
        "/apis/storage.k8s.io/v1/volumeattachments/mine",
        "/apis/resource.k8s.io/v1/resourceslices/mine",
        "/api/v1/persistentvolumes/mine",
    ],
)
async def test_it_reads_what_is_of_its_own_node(stored: Accounts, path: str) -> None:
    answer = await kubelet(stored).get(path)
    assert answer.status == 200, answer.json
    assert (await kubelet(stored, "worker-2").get(path)).status == 403


async def test_it_reads_no_volume_that_its_pods_do_not_use(stored: Accounts) -> None:
    assert (await kubelet(stored).get("/api/v1/persistentvolumes/other")).status == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/apis/storage.k8s.io/v1/csinodes", 403),
        ("/apis/storage.k8s.io/v1/volumeattachments", 403),
        ("/api/v1/persistentvolumes", 403),
        ("/api/v1/persistentvolumes?watch=true&timeoutSeconds=1", 403),
        ("/apis/resource.k8s.io/v1/resourceslices", 403),
        ("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dworker-1", 200),
        ("/apis/storage.k8s.io/v1/csidrivers", 200),
    ],
)
async def test_it_lists_what_is_of_its_own_node(stored: Accounts, path: str, status: int) -> None:
    answer = await kubelet(stored).get(path)
    assert answer.status == status, answer.json


async def mirror(accounts: Accounts, **changes: Any) -> dict[str, Any]:
    node = await accounts.world.core.registry.get("Node", "", "worker-1")
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "worker-1",
        "uid": node.message.metadata.uid,
        "controller": True,
    }
    metadata = {
        "name": "static-worker-1",
        "annotations": {"kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [owner | changes.pop("owner", {})],
    }
    spec = {"nodeName": "worker-1", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": metadata | changes.pop("metadata", {}), "spec": spec | changes}


async def test_it_creates_and_removes_mirror_pods(accounts: Accounts) -> None:
    body = await mirror(accounts)
    answer = await kubelet(accounts).request("POST", f"{CORE}/pods", body)
    assert answer.status == 201, answer.json
    path = f"{CORE}/pods/static-worker-1?gracePeriodSeconds=0"
    assert (await kubelet(accounts).request("DELETE", path)).status == 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metadata": {"annotations": {}}}, "can only create mirror pods"),
        ({"nodeName": "worker-2"}, "spec.nodeName set to itself"),
        (
            {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
            "reference resourceclaims",
        ),
        ({"metadata": {"ownerReferences": []}}, "a single owner reference set to itself"),
        ({"owner": {"name": "worker-2"}}, "a single owner reference set to itself"),
        ({"owner": {"controller": False}}, "a controller owner reference"),
        ({"owner": {"uid": "of-another-time"}}, "UID mismatch: expected of-another-time got "),
        ({"owner": {"blockOwnerDeletion": True}}, "must not set blockOwnerDeletion"),
        ({"serviceAccountName": "builder"}, "reference a service account"),
        ({"volumes": [{"name": "s", "secret": {"secretName": "other"}}]}, "reference secrets"),
        ({"volumes": [{"name": "s", "configMap": {"name": "other"}}]}, "reference configmaps"),
    ],
)
async def test_it_creates_no_other_pods(
    accounts: Accounts, changes: dict[str, Any], says: str
) -> None:
    body = await mirror(accounts, **changes)
    answer = await kubelet(accounts).request("POST", f"{CORE}/pods", body)
    assert answer.status == 403
    assert says in answer.json["message"]


async def test_it_asks_who_calls_it(accounts: Accounts) -> None:
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"verb": "get", "resource": "nodes", "subresource": "log", "name": "worker-1"}
    spec = {"user": "kube-apiserver-kubelet-client", "resourceAttributes": attributes}
    answer = await kubelet(accounts).request("POST", path, {"spec": spec})
    assert answer.json["status"] == {"allowed": True}
