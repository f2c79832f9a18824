"""Writes over HTTP: the objects that gRPC's clients see, and Kubernetes' answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World, message_of, pod_of
from support.kube_client import KubeClient, Response

PODS = "/api/v1/namespaces/default/pods"
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
WORKLOAD = {
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    },
}


def manifest(name: str = "web", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }


async def test_a_created_object_is_the_one_that_grpc_shows(world: World, kube: KubeClient) -> None:
    created = (await kube.request("POST", PODS, manifest())).json
    entry = await world.core.registry.get("Pod", "default", "web")
    assert created["metadata"]["resourceVersion"] == str(entry.revision)
    assert created["metadata"]["uid"] == pod_of(entry).metadata.uid


@pytest.mark.parametrize(
    ("query", "change", "code", "text"),
    [
        ("", {"metadata": {"name": "Bad"}}, 422, "a lowercase RFC 1123 subdomain"),
        ("", {"kind": "Node"}, 400, "Node in version"),
        ("", {"kind": ["Pod"]}, 400, "couldn't get version/kind; kind is not a string"),
        ("", {"apiVersion": 1}, 400, "couldn't get version/kind; apiVersion is not a string"),
        ("", {"metadata": {"name": "x", "namespace": "other"}}, 400, "does not match"),
        ("?fieldValidation=Strict", {"colour": "red"}, 400, 'unknown field "colour"'),
        ("?dryRun=Some", {}, 422, 'supported values: "All"'),
    ],
)
async def test_what_is_wrong_with_a_new_object_is_said_in_kubernetes_words(
    kube: KubeClient, query: str, change: dict[str, Any], code: int, text: str
) -> None:
    response = await kube.request("POST", PODS + query, manifest() | change)
    assert response.status == response.json["code"] == code
    assert text in response.json["message"]


async def test_unknown_fields_are_warned_of_and_a_missing_namespace_is_named(
    kube: KubeClient,
) -> None:
    response = await kube.request("POST", PODS, manifest() | {"colour": "red"})
    assert response.headers["warning"] == '299 - "unknown field \\"colour\\""'
    odd = await kube.request(
        "POST", PODS, manifest("b") | {"line\r\nbreak\x00\u20ac" + "x" * 999: 1}
    )
    assert odd.headers["warning"].startswith(
        '299 - "unknown field \\"line\\\\r\\\\nbreak\\\\x00\\\\u20acx'
    )
    assert len(odd.headers["warning"]) < 300
    missing = await kube.request("POST", "/api/v1/namespaces/nowhere/pods", manifest())
    assert missing.json["message"] == 'namespaces "nowhere" not found'


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_who_creates_what_no_controller_looks_after_is_warned(
    kube: KubeClient, kind: str
) -> None:
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "main:1"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    created = await kube.request("POST", path, body)
    assert created.status == 201
    assert created.headers["warning"].startswith(f'299 - "a {kind} makes no pods: podsched has c')
    applied_new = body | {"metadata": {"name": "b"}}
    new = await kube.request("PATCH", f"{path}/b?fieldManager=a", applied_new, APPLY)
    assert f"a {kind} makes no pods" in new.headers["warning"]
    again = await kube.request("PATCH", f"{path}/b?fieldManager=a", applied_new, APPLY)
    assert "warning" not in again.headers
    events = (await kube.request("GET", "/api/v1/namespaces/default/events")).json["items"]
    assert [(e["involvedObject"]["kind"], e["reason"], e["type"]) for e in events] == [
        (kind, "NoController", "Warning")
    ] * 2
    assert {e["involvedObject"]["name"] for e in events} == {"a", "b"}
    assert events[0]["involvedObject"]["uid"] == created.json["metadata"]["uid"]
    own = await kube.request(
        "POST", "/apis/apps/v1/namespaces/default/replicasets", body | {"kind": "ReplicaSet"}
    )
    assert own.status == 201
    assert "warning" not in own.headers


async def test_a_workload_is_created_without_a_warning_while_a_controller_manager_leads(
    kube: KubeClient,
) -> None:
    jobs = "/apis/batch/v1/namespaces/default/cronjobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]}
    spec: dict[str, Any] = {"schedule": "@hourly"}
    spec["jobTemplate"] = {"spec": {"template": {"spec": pod}}}
    job = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec}
    alone = await kube.request("POST", jobs, job | {"metadata": {"name": "a"}})
    assert "no kube-controller-manager renews its Lease" in alone.headers["warning"]
    now = alone.json["metadata"]["creationTimestamp"].replace("Z", ".000000Z")
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": now}
    lease = {"metadata": {"name": "kube-controller-manager"}, "spec": spec}
    assert (await kube.request("POST", leases, lease)).status == 201
    led = await kube.request("POST", jobs, job | {"metadata": {"name": "b"}})
    assert led.status == 201
    assert "warning" not in led.headers


async def test_a_dry_run_stores_nothing(kube: KubeClient) -> None:
    assert (await kube.request("POST", f"{PODS}?dryRun=All", manifest())).status == 201
    assert (await kube.get(f"{PODS}/web")).status == 404


@pytest.mark.parametrize("query", ["?dryRun=All", ""])
async def test_the_removal_of_the_last_finalizer_is_answered_with_it(
    kube: KubeClient, query: str
) -> None:
    new = manifest()
    new["metadata"]["finalizers"] = ["example.com/a"]
    await kube.request("POST", PODS, new)
    await kube.request("DELETE", f"{PODS}/web")
    patch = {"metadata": {"finalizers": None}}
    answer = await kube.request("PATCH", f"{PODS}/web{query}", patch, MERGE)
    assert "finalizers" not in answer.json["metadata"]


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("dryRun=All", None, 200),
        ("dryRun=All&dryRun=All", None, 200),
        ("dryRun=&dryRun=All", None, 422),
        ("dryRun=All&dryRun=", None, 422),
        ("dryRun=", None, 422),
        ("dryRun=all", None, 422),
        ("", {"dryRun": ["All"]}, 200),
        ("", {"dryRun": ["", "All"]}, 422),
        ("gracePeriodSeconds=30&gracePeriodSeconds=0", None, 400),
        ("propagationPolicy=Orphan&propagationPolicy=Background", None, 400),
    ],
)
async def test_who_may_have_meant_a_dry_run_deletes_nothing(
    kube: KubeClient, query: str, body: Any, status: int
) -> None:
    await kube.request("POST", PODS, manifest())
    assert (await kube.request("DELETE", f"{PODS}/web?{query}", body)).status == status
    kept = await kube.get(f"{PODS}/web")
    assert kept.status == 200
    assert "deletionTimestamp" not in kept.json["metadata"]


async def test_a_selector_that_stands_twice_selects_nothing_for_deletion(kube: KubeClient) -> None:
    await kube.request("POST", PODS, manifest())
    query = "labelSelector=&labelSelector=app%3Dother"
    assert (await kube.request("DELETE", f"{PODS}?{query}")).status == 400
    assert (await kube.get(f"{PODS}/web")).status == 200
    assert (await kube.get(f"{PODS}?limit=1&limit=1")).status == 200


async def test_who_replaces_an_old_version_meets_a_conflict(world: World, kube: KubeClient) -> None:
    first = (await kube.request("POST", PODS, manifest())).json
    first["metadata"]["labels"] = {"round": "1"}
    assert (await kube.request("PUT", f"{PODS}/web", first)).status == 200
    again = await kube.request("PUT", f"{PODS}/web", first)
    assert (again.status, again.json["reason"]) == (409, "Conflict")


async def test_a_json_patch_may_test_the_kind(kube: KubeClient) -> None:
    await kube.request("POST", PODS, manifest())
    for path, value, status in (("/kind", "Pod", 200), ("/apiVersion", "v2", 422)):
        patch = [
            {"op": "test", "path": path, "value": value},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "1"}},
        ]
        assert (await kube.request("PATCH", f"{PODS}/web", patch, JSON_PATCH)).status == status


@pytest.mark.parametrize(
    ("headers", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"a": None, "b": "2"}}}),
        (STRATEGIC, {"metadata": {"labels": {"a": None, "b": "2"}}}),
        (
            JSON_PATCH,
            [
                {"op": "remove", "path": "/metadata/labels/a"},
                {"op": "add", "path": "/metadata/labels/b", "value": "2"},
            ],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
async def test_each_kind_of_patch_changes_labels(
    kube: KubeClient, headers: dict[str, str], patch: Any
) -> None:
    await kube.request("POST", PODS, manifest(a="1"))
    patched = (await kube.request("PATCH", f"{PODS}/web", patch, headers)).json
    assert patched["metadata"]["labels"] == {"b": "2"}


async def test_some_kinds_are_replaced_only_in_a_version_that_is_named(kube: KubeClient) -> None:
    """As their strategies in Kubernetes say (AllowUnconditionalUpdate)."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await kube.request("POST", classes, {"metadata": {"name": "a"}, "value": 1})
    again = {"metadata": {"name": "a"}, "value": 1, "description": "b"}
    assert (await kube.request("PUT", f"{classes}/a", again)).json["description"] == "b"
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {"metadata": {"name": "a"}, "spec": {"maxUnavailable": 1}}
    await kube.request("POST", budgets, budget)
    refused = await kube.request("PUT", f"{budgets}/a", budget)
    assert refused.json["message"] == (
        'poddisruptionbudgets.policy "a" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


async def test_the_namespace_of_an_object_that_has_none_is_ignored(kube: KubeClient) -> None:
    """Charts name one for all their objects, those of the cluster included."""
    nodes = "/api/v1/nodes"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "namespace": "x"}}
    applied = {**node, "metadata": {"name": "b", "namespace": "x"}}
    for method, path, body, headers in (
        ("POST", nodes, node, {}),
        ("PUT", f"{nodes}/a", node, {}),
        ("PATCH", f"{nodes}/a", {"metadata": {"namespace": "x"}}, MERGE),
        ("PATCH", f"{nodes}/b?fieldManager=me", applied, APPLY),
        ("PATCH", f"{nodes}/b?fieldManager=me", applied, APPLY),
    ):
        answer = await kube.request(method, path, body, headers)
        assert answer.status in (200, 201), answer.json
        assert "namespace" not in answer.json["metadata"]


@pytest.mark.parametrize("field", ["uid", "namespace"])
async def test_a_patch_cannot_remove_what_names_an_object(kube: KubeClient, field: str) -> None:
    before = (await kube.request("POST", PODS, manifest(a="1"))).json
    patch = {"metadata": {field: None, "labels": {"a": "2"}}}
    patched = (await kube.request("PATCH", f"{PODS}/web", patch, MERGE)).json
    assert patched["metadata"]["labels"] == {"a": "2"}
    assert patched["metadata"][field] == before["metadata"][field]


async def test_a_replacement_needs_a_name(kube: KubeClient) -> None:
    await kube.request("POST", PODS, manifest())
    for method, headers in (("PUT", {}), ("PATCH", MERGE)):
        nameless = manifest() | {"metadata": {"name": None}}
        answer = await kube.request(method, f"{PODS}/web", nameless, headers)
        assert (answer.status, answer.json["message"]) == (
            400,
            "the name of the object (web based on URL) was undeterminable: name must be provided",
        )


async def test_an_update_creates_a_lease_that_is_not_there(kube: KubeClient) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    created = await kube.request("PUT", f"{leases}/a", lease)
    assert (created.status, created.json["spec"]) == (201, lease["spec"])
    assert (await kube.get(f"{leases}/a")).json == created.json
    another = {"metadata": {"name": "b", "uid": "of-a-deleted-one"}}
    assert (await kube.request("PUT", f"{leases}/b", another)).status == 409


async def test_an_update_of_a_pod_or_status_that_is_not_there_creates_nothing(
    kube: KubeClient,
) -> None:
    assert (await kube.request("PUT", f"{PODS}/web", manifest())).status == 404
    service = "/api/v1/namespaces/default/services/a/status"
    assert (await kube.request("PUT", service, {"metadata": {"name": "a"}})).status == 404


async def test_a_write_that_changes_nothing_keeps_the_version(kube: KubeClient) -> None:
    first = (await kube.request("POST", PODS, manifest(a="1"))).json
    patch = {"metadata": {"labels": {"a": "1"}}}
    again = (await kube.request("PATCH", f"{PODS}/web", patch, MERGE)).json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize(
    ("collection", "spec"),
    [
        ("/api/v1/nodes", {}),
        ("/apis/apps/v1/namespaces/default/deployments", WORKLOAD),
        ("/apis/kueue.x-k8s.io/v1beta2/cohorts", {}),
    ],
)
async def test_an_object_that_is_sent_back_as_it_was_shown_is_not_written(
    kube: KubeClient, collection: str, spec: dict[str, Any], subresource: str
) -> None:
    """Its empty spec or status is shown, and not stored."""
    shown = (await kube.request("POST", collection, {"metadata": {"name": "a"}, "spec": spec})).json
    path = f"{collection}/a{subresource}"
    assert (await kube.request("PUT", path, shown)).json == shown
    assert (await kube.request("PATCH", path, shown, MERGE)).json == shown


async def test_applying_a_spec_that_is_shown_empty_is_no_new_generation(kube: KubeClient) -> None:
    cohorts = "/apis/kueue.x-k8s.io/v1beta2/cohorts"
    shown = (await kube.request("POST", cohorts, {"metadata": {"name": "a"}})).json
    config = {**shown, "metadata": {"name": "a"}}
    applied = await kube.request("PATCH", f"{cohorts}/a?fieldManager=me", config, APPLY)
    assert applied.json["metadata"]["generation"] == 1


async def test_the_status_is_written_by_its_path_alone(kube: KubeClient) -> None:
    await kube.request("POST", PODS, manifest())
    patch = {"status": {"phase": "Running"}}
    ignored = (await kube.request("PATCH", f"{PODS}/web", patch, MERGE)).json
    assert ignored["status"]["phase"] == "Pending"
    written = (await kube.request("PATCH", f"{PODS}/web/status", patch, MERGE)).json
    assert written["status"]["phase"] == "Running"


@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_a_namespace_keeps_the_label_with_its_name(
    kube: KubeClient, subresource: str
) -> None:
    """Network policies and the affinity of pods select it by this label."""
    patch = {"metadata": {"labels": None}}
    path = f"/api/v1/namespaces/default{subresource}"
    answer = await kube.request("PATCH", path, patch, MERGE)
    assert answer.json["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}


async def test_a_claim_of_a_dump_is_not_bound_before_its_controller_says_so(
    kube: KubeClient,
) -> None:
    """As in Kubernetes: otherwise its pod would start without the volume."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": spec, "status": bound}
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    created = await kube.request("POST", path, claim)
    assert created.json["status"] == {"phase": "Pending"}


async def test_a_status_keeps_the_generations_that_it_leaves_out(kube: KubeClient) -> None:
    """Of older kubelets, which do not know them."""
    created = (await kube.request("POST", PODS, manifest())).json
    del created["metadata"]["resourceVersion"]

    async def written(generation: dict[str, int]) -> Any:
        conditions = [{"type": "Ready", "status": "False", **generation}]
        body = {**created, "status": {"conditions": conditions, **generation}}
        return (await kube.request("PUT", f"{PODS}/web/status", body)).json["status"]

    first = await written({"observedGeneration": 1})
    assert await written({}) == first


async def test_a_kubelet_is_told_what_to_ask_over_http_and_how_long_tokens_last(
    kube: KubeClient,
) -> None:
    get = {"httpGet": {"port": 80}}
    sources = [{"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "a"}}]
    body = manifest()
    main = body["spec"]["containers"][0]
    main["livenessProbe"], main["lifecycle"] = get, {"preStop": get}
    body["spec"]["volumes"] = [{"name": "v", "projected": {"sources": sources}}]
    body["spec"]["serviceAccountName"] = "default"
    spec = (await kube.request("POST", PODS, body)).json["spec"]
    (container,) = spec["containers"]
    asked = {"port": 80, "path": "/", "scheme": "HTTP"}
    assert container["livenessProbe"]["httpGet"] == asked
    assert container["lifecycle"]["preStop"]["httpGet"] == asked
    token, _ = spec["volumes"][0]["projected"]["sources"]
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}


async def test_the_status_of_an_attachment_changes_no_metadata(kube: KubeClient) -> None:
    path = "/apis/storage.k8s.io/v1/volumeattachments"
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    await kube.request("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"attached": True}}
    written = (await kube.request("PATCH", f"{path}/a/status", patch, MERGE)).json
    assert (written["status"], "labels" in written["metadata"]) == ({"attached": True}, False)


async def test_a_pod_is_marked_before_it_is_removed(world: World, kube: KubeClient) -> None:
    created = await world.core.creator.create(pod("a"))
    answer = (await kube.request("DELETE", f"{PODS}/a")).json
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    assert int(answer["metadata"]["resourceVersion"]) == created.revision + 2
    await world.core.reflector.wait_until_fresh()
    ring = world.core.cache.ring
    changes = ring.changes_from(ring.position_after(created.revision), 9)
    assert [change.type for change in changes] == [v1.MODIFIED, v1.DELETED]


async def test_a_deletion_of_another_object_of_the_name_is_a_conflict(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(pod("a"))
    options = {"preconditions": {"uid": "another"}}
    response = await kube.request("DELETE", f"{PODS}/a", options)
    assert response.status == 409
    assert "does not match the UID in record" in response.json["message"]


async def test_a_collection_is_listed_as_it_was(world: World, kube: KubeClient) -> None:
    await world.core.creator.create_many([pod("a"), pod("b")])
    listed = (await kube.request("DELETE", PODS)).json
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert (await kube.get(PODS)).json["items"] == []


# ------------------------------------------------------------------ server-side apply


async def applied(
    kube: KubeClient, manager: str, labels: dict[str, str], query: str = ""
) -> Response:
    config = manifest("applied") | {"metadata": {"name": "applied", "labels": labels}}
    path = f"{PODS}/applied?fieldManager={manager}{query}"
    return await kube.request("PATCH", path, config, APPLY)


async def test_a_first_apply_creates_and_the_same_again_changes_nothing(kube: KubeClient) -> None:
    first = await applied(kube, "one", {"app": "web"})
    again = await applied(kube, "one", {"app": "web"})
    assert (first.status, again.status) == (201, 200)
    version = first.json["metadata"]["resourceVersion"]
    assert again.json["metadata"]["resourceVersion"] == version
    [owner] = again.json["metadata"]["managedFields"]
    assert owner["fieldsV1"]["f:metadata"] == {"f:labels": {"f:app": {}}}


async def test_an_apply_with_a_uid_does_not_bring_back_an_object_that_is_gone(
    kube: KubeClient,
) -> None:
    made = (await applied(kube, "one", {"app": "web"})).json
    await kube.request("DELETE", f"{PODS}/applied")
    config = manifest("applied")
    config["metadata"]["uid"] = made["metadata"]["uid"]
    refused = await kube.request("PATCH", f"{PODS}/applied?fieldManager=one", config, APPLY)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    assert (await kube.get(f"{PODS}/applied")).status == 404


async def test_who_applies_or_puts_what_another_creates_meanwhile_changes_that(
    kube: KubeClient,
) -> None:
    both = await asyncio.gather(
        applied(kube, "one", {"app": "web"}), applied(kube, "two", {"owner": "two"})
    )
    assert {answer.status for answer in both} == {200, 201}
    stored = (await kube.get(f"{PODS}/applied")).json
    assert stored["metadata"]["labels"] == {"app": "web", "owner": "two"}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/reader"
    role = {"metadata": {"name": "reader"}, "rules": []}
    both = await asyncio.gather(*(kube.request("PUT", path, role) for _ in range(2)))
    assert {answer.status for answer in both} == {200, 201}


async def test_who_applies_unknown_fields_is_warned_of_them(kube: KubeClient) -> None:
    config = manifest("applied") | {"colour": "red", "loud": False}
    for status in (201, 200):
        path = f"{PODS}/applied?fieldManager=one"
        answer = await kube.request("PATCH", path, config, APPLY)
        assert answer.status == status
        told = answer.sent.partition(b"\r\n\r\n")[0].decode()
        for name in ("colour", "loud"):
            assert told.count(f'unknown field \\"{name}\\"') == 1


async def test_another_manager_meets_a_conflict_unless_it_insists(kube: KubeClient) -> None:
    await applied(kube, "one", {"app": "web", "owner": "one"})
    refused = await applied(kube, "two", {"owner": "two"})
    assert refused.status == 409
    [cause] = refused.json["details"]["causes"]
    assert cause == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "one"',
        "field": ".metadata.labels.owner",
    }
    forced = await applied(kube, "two", {"owner": "two"}, "&force=true")
    assert forced.json["metadata"]["labels"] == {"app": "web", "owner": "two"}


async def test_a_field_that_its_only_owner_applies_no_longer_is_removed(kube: KubeClient) -> None:
    await applied(kube, "one", {"app": "web", "old": "yes"})
    found = (await applied(kube, "one", {"app": "web"})).json
    assert found["metadata"]["labels"] == {"app": "web"}


async def test_a_change_by_another_way_takes_the_field_over(kube: KubeClient) -> None:
    await applied(kube, "one", {"app": "web"})
    patch = {"metadata": {"labels": {"app": "db"}}}
    await kube.request("PATCH", f"{PODS}/applied?fieldManager=hand", patch, MERGE)
    refused = await applied(kube, "one", {"app": "web"})
    assert 'conflict with "hand"' in refused.json["message"]


NODE = "/api/v1/nodes/worker"


async def applied_node(kube: KubeClient, manager: str, query: str = "", **spec: Any) -> Response:
    config = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}, "spec": spec}
    return await kube.request("PATCH", f"{NODE}?fieldManager={manager}{query}", config, APPLY)


async def test_a_field_that_is_applied_as_false_is_no_longer_true(kube: KubeClient) -> None:
    """False is not stored, but it is a value that a manager can own."""
    await applied_node(kube, "one", unschedulable=True)
    refused = await applied_node(kube, "two", unschedulable=False)
    assert refused.json["details"]["causes"][0]["field"] == ".spec.unschedulable"
    forced = (await applied_node(kube, "two", "&force=true", unschedulable=False)).json
    assert "unschedulable" not in forced["spec"]
    for manager in ("two", "three"):
        again = (await applied_node(kube, manager, unschedulable=False)).json
    owned = {each["manager"]: each["fieldsV1"] for each in again["metadata"]["managedFields"]}
    assert owned["two"] == owned["three"] == {"f:spec": {"f:unschedulable": {}}}


async def test_a_write_of_the_object_leaves_the_owners_of_its_status(kube: KubeClient) -> None:
    """It does not write the status, whatever it has there."""
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}
    await applied_node(kube, "admin")
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready, {"type": "Old", "status": "True"}]}
    path = f"{NODE}/status?fieldManager=agent"
    await kube.request("PATCH", path, config | {"status": status}, APPLY)
    await kube.request("PUT", f"{NODE}?fieldManager=hand", config)
    again = config | {"status": {"conditions": [ready]}}
    found = (await kube.request("PATCH", path, again, APPLY)).json
    assert [each["type"] for each in found["status"]["conditions"]] == ["Ready"]


async def test_a_write_of_the_status_takes_over_no_field_of_the_spec(kube: KubeClient) -> None:
    await applied_node(kube, "admin", unschedulable=True)
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}}
    node["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    found = (await kube.request("PUT", f"{NODE}/status?fieldManager=agent", node)).json
    assert found["spec"] == {"unschedulable": True}
    owned = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    assert owned["admin"] == {"f:spec": {"f:unschedulable": {}}}
    assert owned["agent"].keys() == {"f:status"}


async def test_an_update_that_changes_nothing_writes_nothing_though_items_stand_twice(
    kube: KubeClient,
) -> None:
    config = manifest("applied")
    config["spec"]["containers"][0]["env"] = [{"name": "a", "value": v} for v in ("1", "2")]
    await kube.request("POST", PODS, config)
    pod = (await applied(kube, "one", {"app": "web"})).json
    again = (await kube.request("PUT", f"{PODS}/applied?fieldManager=two", pod)).json
    assert pod["kind"] == again["kind"] == "Pod"
    assert again["metadata"] == pod["metadata"]


async def test_an_empty_list_that_is_applied_by_force_takes_the_place_of_a_full_one(
    kube: KubeClient,
) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    await applied_node(kube, "one", taints=[taint])
    forced = (await applied_node(kube, "two", "&force=true", taints=[])).json
    assert "taints" not in forced["spec"]


async def test_the_ports_of_a_slice_are_applied_as_one_value(kube: KubeClient) -> None:
    """Two of them may have the same number."""
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web"
    config: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web"},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}],
    }
    made = await kube.request("PATCH", f"{path}?fieldManager=one", config, APPLY)
    assert (made.status, len(made.json["ports"])) == (201, 2)
    again = await kube.request("PATCH", f"{path}?fieldManager=one", config, APPLY)
    version = made.json["metadata"]["resourceVersion"]
    assert again.json["metadata"]["resourceVersion"] == version
    config["ports"] = [{"name": "c", "port": 90}]
    refused = await kube.request("PATCH", f"{path}?fieldManager=two", config, APPLY)
    assert refused.json["details"]["causes"][0]["field"] == ".ports"
    forced = await kube.request("PATCH", f"{path}?fieldManager=two&force=true", config, APPLY)
    assert [port["name"] for port in forced.json["ports"]] == ["c"]


async def test_who_applies_a_volume_for_a_claim_leaves_what_the_binding_has_added(
    kube: KubeClient,
) -> None:
    """The reference to the claim has several owners, unlike other references."""
    path = "/api/v1/persistentvolumes/disk"
    claim = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "claimRef": claim,
        },
    }
    await kube.request("PATCH", f"{path}?fieldManager=one", config, APPLY)
    bound = {"spec": {"claimRef": {"uid": "5"}}}
    await kube.request("PATCH", f"{path}?fieldManager=binder", bound, MERGE)
    again = await kube.request("PATCH", f"{path}?fieldManager=one", config, APPLY)
    assert again.json["spec"]["claimRef"] == claim | {"uid": "5"}


async def test_a_quantity_is_applied_as_it_is_stored(kube: KubeClient) -> None:
    """Otherwise it differs each time, and conflicts with who applied the same."""
    config = manifest("applied")
    config["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000m"}}
    versions = []
    for manager in ("one", "two", "one", "two"):
        path = f"{PODS}/applied?fieldManager={manager}"
        answer = await kube.request("PATCH", path, config, APPLY)
        versions.append(answer.json["metadata"]["resourceVersion"])
    assert versions[1:] == [versions[1]] * 3


#: Without its API groups, which are defaults.
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "readers"},
    "roleRef": {"kind": "Role", "name": "reader"},
    "subjects": [{"kind": "User", "name": "ann"}],
}
BINDING_PATH = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/readers"


async def test_applying_again_what_has_got_defaults_writes_nothing(
    world: World, kube: KubeClient
) -> None:
    """The subjects are one value, which differs from what is applied by their API group."""
    path = f"{BINDING_PATH}?fieldManager=one"
    await kube.request("PATCH", path, BINDING, APPLY)
    stored = message_of(await world.core.registry.get("RoleBinding", "default", "readers"))
    stored.metadata.managed_fields[0]["time"] = "2001-01-01T00:00:00Z"
    entry = await world.core.registry.update(stored)
    again = await kube.request("PATCH", path, BINDING, APPLY)
    assert again.json["metadata"]["resourceVersion"] == str(entry.revision)


async def test_an_update_without_the_defaults_takes_nothing_over(kube: KubeClient) -> None:
    made = await kube.request("PATCH", f"{BINDING_PATH}?fieldManager=one", BINDING, APPLY)
    again = await kube.request("PUT", f"{BINDING_PATH}?fieldManager=two", BINDING)
    assert again.status == 200, again.json
    assert again.json["metadata"] == made.json["metadata"]


async def test_an_item_that_is_applied_no_longer_is_not_stored_without_its_name(
    kube: KubeClient,
) -> None:
    def config(*names: str) -> dict[str, Any]:
        env = [{"name": name, "value": "v"} for name in names]
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "main:1", "env": env}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "applied"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        }

    names = [f"e{number}" for number in range(20)]
    path = "/apis/apps/v1/namespaces/default/replicasets/applied"
    for wanted in (names, names[::2]):
        await kube.request("PATCH", f"{path}?fieldManager=one", config(*wanted), APPLY)
    stored = (await kube.request("GET", path)).json
    [main] = stored["spec"]["template"]["spec"]["containers"]
    assert main["env"] == [{"name": name, "value": "v"} for name in names[::2]]


async def test_a_configuration_with_too_many_fields_is_refused(kube: KubeClient) -> None:
    many = [{"name": f"c{number}"} for number in range(10_000)]
    config = manifest("applied") | {"spec": {"containers": many}}
    refused = await kube.request("PATCH", f"{PODS}/applied?fieldManager=one", config, APPLY)
    assert refused.status == 413
    assert "10,000 fields at most" in refused.json["message"]


async def test_a_key_that_stands_twice_in_a_configuration_is_refused(kube: KubeClient) -> None:
    body = b'{"apiVersion":"v1","kind":"Pod","kind":"Pod","metadata":{"name":"applied"}}'
    refused = await kube.request("PATCH", f"{PODS}/applied?fieldManager=one", body, APPLY)
    assert (refused.status, refused.json["reason"]) == (400, "BadRequest")
    assert 'key "kind" already set' in refused.json["message"]


async def test_yaml_with_too_many_values_is_refused_before_it_is_loaded(kube: KubeClient) -> None:
    body = "kind: Pod\nspec:\n" + "- a\n" * 21_000
    refused = await kube.request("PATCH", f"{PODS}/applied?fieldManager=one", body.encode(), APPLY)
    assert refused.status == 400
    assert "more than 20,000 keys and values: write it as JSON" in refused.json["message"]


def hostile(count: int) -> bytes:
    """A pod of so many empty containers: three bytes each."""
    items = ",".join(["{}"] * count)
    return f'{{"metadata":{{"name":"web"}},"spec":{{"containers":[{items}]}}}}'.encode()


@pytest.mark.parametrize("count", [900, 1100, 20_000, 97_000])
async def test_empty_containers_by_the_thousand_are_refused_in_few_words(
    kube: KubeClient, count: int
) -> None:
    response = await kube.request("POST", PODS, hostile(count))
    assert response.status in (400, 413, 422)
    assert len(response.body) < 50_000
    assert len(response.json.get("details", {}).get("causes", [])) <= 100


@pytest.mark.parametrize("headers", [MERGE, STRATEGIC, JSON_PATCH, APPLY])
@pytest.mark.parametrize("count", [900, 1100, 20_000, 97_000])
async def test_a_patch_to_empty_containers_by_the_thousand_is_refused_in_few_words(
    kube: KubeClient, headers: dict[str, str], count: int
) -> None:
    await kube.request("POST", PODS, manifest())
    body = hostile(count)
    if headers is JSON_PATCH:
        body = b'[{"op":"replace","path":"/spec/containers","value":[%s]}]' % b",".join(
            [b"{}"] * count
        )
    elif headers is APPLY:
        body = b'{"apiVersion":"v1","kind":"Pod",' + body[1:]
    response = await kube.request("PATCH", f"{PODS}/web?fieldManager=a", body, headers)
    assert response.status in (400, 413, 422)
    assert len(response.body) < 50_000
    assert len(response.json.get("details", {}).get("causes", [])) <= 100


@pytest.mark.parametrize(
    ("why", "operation", "labels"),
    [
        (
            "a value replaces a label that is not there",
            {"op": "replace", "path": "/metadata/labels/b", "value": "2"},
            {"a": "1", "b": "2"},
        ),
        (
            "annotations replace those that are not there",
            {"op": "replace", "path": "/metadata/annotations", "value": {"b": "2"}},
            {"a": "1"},
        ),
        (
            "an absent label passes a test for null",
            {"op": "test", "path": "/metadata/labels/b", "value": None},
            {"a": "1"},
        ),
    ],
)
async def test_a_json_patch_treats_absent_members_as_kubernetes_does(
    kube: KubeClient, why: str, operation: dict[str, Any], labels: dict[str, str]
) -> None:
    await kube.request("POST", PODS, manifest(a="1"))
    answer = await kube.request("PATCH", f"{PODS}/web", [operation], JSON_PATCH)
    assert answer.status == 200, why
    assert answer.json["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/metadata/nothing/b", "value": "2"},
        {"op": "test", "path": "/metadata/labels/b", "value": "2"},
        {"op": "test", "path": "/metadata/labels/a", "value": None},
        {"op": "replace", "path": "/spec/containers/1", "value": {}},
    ],
)
async def test_a_json_patch_that_finds_other_values_is_refused(
    kube: KubeClient, operation: dict[str, Any]
) -> None:
    await kube.request("POST", PODS, manifest(a="1"))
    answer = await kube.request("PATCH", f"{PODS}/web", [operation], JSON_PATCH)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")


async def test_a_json_patch_adds_to_a_spec_that_is_empty(kube: KubeClient) -> None:
    node = (await kube.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).json
    operation = {"op": "test", "path": "/spec", "value": {}}
    same = await kube.request("PATCH", "/api/v1/nodes/n", [operation], JSON_PATCH)
    assert same.json["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"]
    operation = {"op": "add", "path": "/spec/unschedulable", "value": True}
    patched = await kube.request("PATCH", "/api/v1/nodes/n", [operation], JSON_PATCH)
    assert patched.json["spec"] == {"unschedulable": True}


@pytest.mark.parametrize(
    ("path", "kind", "spec", "status"),
    [
        ("/api/v1/namespaces/default/resourcequotas", "ResourceQuota", {"hard": {"pods": "1"}}, {}),
        ("/apis/apps/v1/namespaces/default/deployments", "Deployment", WORKLOAD, {}),
        ("/apis/apps/v1/namespaces/default/replicasets", "ReplicaSet", WORKLOAD, {"replicas": 0}),
    ],
)
async def test_a_status_is_shown_even_if_it_is_empty(
    kube: KubeClient, path: str, kind: str, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    new = {"kind": kind, "metadata": {"name": "a"}, "spec": spec}
    assert (await kube.request("POST", path, new)).json["status"] == status


async def test_a_json_patch_that_copies_a_list_into_itself_is_bounded(kube: KubeClient) -> None:
    await kube.request("POST", PODS, manifest())
    items = [{}] * 9_000
    patch: list[Any] = [{"op": "add", "path": "/spec/containers/0/ports", "value": items}]
    copy = {"op": "copy", "from": "/spec/containers/0", "path": "/spec/containers/-"}
    response = await kube.request("PATCH", f"{PODS}/web", [*patch, *[copy] * 20], JSON_PATCH)
    assert response.status == 413
    assert response.json["message"] == "the patch copies too much"


async def test_a_json_patch_whose_moves_nest_too_deeply_is_refused(kube: KubeClient) -> None:
    """Of what has other mistakes, too, a part would be shown."""
    await kube.request("POST", PODS, manifest())
    outer = {"op": "add", "path": "/outer", "value": {}}
    into = {"op": "move", "from": "/inner", "path": "/outer/inner"}
    back = {"op": "move", "from": "/outer", "path": "/inner"}
    patch: list[Any] = [{"op": "add", "path": "/inner", "value": {}}]
    patch += [outer, into, back] * 1_100 + [{"op": "add", "path": "/metadata/labels", "value": 1}]
    response = await kube.request("PATCH", f"{PODS}/web", patch, JSON_PATCH)
    assert response.status == 400
    assert "nested more than 100 levels deep" in response.json["message"]


async def test_doubled_keys_are_told_as_far_as_they_are_few(kube: KubeClient) -> None:
    doubled = b",".join(b'"%d":{"a":1,"a":2}' % number for number in range(5_000))
    body = b'{"metadata":{"name":"web"},"x":{%s}}' % doubled
    response = await kube.request("POST", f"{PODS}?fieldValidation=Strict", body)
    assert response.status == 400
    assert response.json["message"].count("duplicate field") == 50
