"""kubectl, as its users know it, on podsched: over TLS, with a client certificate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.eventually import PATIENCE, eventually_blocking
from support.kube_cluster import KubeCluster

pytestmark = pytest.mark.integration


def pod(name: str, image: str = "app:1", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


def apply(kube: KubeCluster, *objects: dict[str, Any], arguments: tuple[str, ...] = ()) -> str:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return kube.kubectl("apply", *arguments, "-f", "-", stdin=json.dumps(listed))


def test_what_is_applied_is_scheduled_and_shown(kube: KubeCluster) -> None:
    """apply, wait, get in its forms, describe with events, and apply again."""
    assert apply(kube, pod("web", app="web")) == "pod/web created\n"
    assert apply(kube, pod("web", app="web")) == "pod/web unchanged\n"
    kube.kubectl("wait", "pod/web", "--for=condition=PodScheduled", "--timeout=150s")
    node = kube.kubectl("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}")
    assert node.startswith("node-")
    header, row = kube.kubectl("get", "pods", "-l", "app=web", "-o", "wide").splitlines()
    assert header.split()[:3] == ["NAME", "READY", "STATUS"]
    assert node in row
    assigned = f"Successfully assigned default/web to {node}"
    eventually_blocking("the event", lambda: assigned in kube.kubectl("describe", "pod", "web"))
    assert assigned in kube.kubectl("events", "--for", "pod/web")
    assert apply(kube, pod("web", "app:2", app="web")) == "pod/web configured\n"
    kube.kubectl("delete", "pod", "web", "--now")


def test_generators_that_send_protobuf_make_objects(kube: KubeCluster) -> None:
    """``kubectl create KIND`` sends protobuf: the object equals the one that JSON makes."""
    command = ("create", "deployment", "made", "--image=app:1", "--replicas=2", "--port=80")
    kube.kubectl(*command)
    made = json.loads(kube.kubectl("get", "deployment", "made", "-o", "json"))["spec"]
    kube.kubectl("delete", "deployment", "made")
    manifest = kube.kubectl(*command, "--dry-run=client", "-o", "json")
    kube.kubectl("apply", "-f", "-", stdin=manifest)
    assert json.loads(kube.kubectl("get", "deployment", "made", "-o", "json"))["spec"] == made
    kube.kubectl("create", "job", "once", "--image=app:1", "--", "date")
    kube.kubectl("create", "cronjob", "tick", "--image=app:1", "--schedule=*/5 * * * *")
    kube.kubectl("create", "secret", "generic", "word", "--from-literal=a=b")
    kube.kubectl("create", "serviceaccount", "bot")
    found = kube.kubectl("get", "cronjob,job,secret,serviceaccount", "-o", "name").split()
    wanted = {"cronjob.batch/tick", "job.batch/once", "secret/word", "serviceaccount/bot"}
    assert wanted <= set(found)
    kube.kubectl("delete", "deployment/made", *sorted(wanted))


def test_labels_annotations_and_patches_change_objects(kube: KubeCluster) -> None:
    apply(kube, pod("changing"))
    kube.kubectl("label", "pod", "changing", "tier=front")
    kube.kubectl("annotate", "pod", "changing", "note=seen")
    kube.kubectl("patch", "pod", "changing", "-p", '{"metadata": {"labels": {"a": "1"}}}')
    operations = '[{"op": "remove", "path": "/metadata/labels/tier"}]'
    kube.kubectl("patch", "pod", "changing", "--type=json", "-p", operations)
    found = json.loads(kube.kubectl("get", "pod", "changing", "-o", "json"))["metadata"]
    assert found["labels"] == {"a": "1"}
    assert found["annotations"]["note"] == "seen"
    kube.kubectl("delete", "pod", "changing", "--now")


def test_server_side_apply_tells_managers_apart(kube: KubeCluster) -> None:
    one, two = ("--server-side", "--field-manager=one"), ("--server-side", "--field-manager=two")
    apply(kube, pod("shared", owner="one"), arguments=one)
    listed = json.dumps(pod("shared", owner="two"))
    refused = kube.kubectl("apply", *two, "-f", "-", stdin=listed, code=1)
    assert 'conflict with "one": .metadata.labels.owner' in refused
    apply(kube, pod("shared", owner="two"), arguments=(*two, "--force-conflicts"))
    kube.kubectl("delete", "pod", "shared", "--now")


def test_the_state_of_a_controller_revision_stays(kube: KubeCluster) -> None:
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "web-1"},
        "data": {"spec": {"template": {"$patch": "replace"}}},
        "revision": 1,
    }
    apply(kube, revision)
    header, row = kube.kubectl("get", "controllerrevisions").splitlines()
    assert header.split() == ["NAME", "CONTROLLER", "REVISION", "AGE"]
    assert row.split()[:3] == ["web-1", "<none>", "1"]
    operations = '[{"op": "replace", "path": "/data", "value": {}}]'
    patch = ("patch", "controllerrevision", "web-1", "--type=json", "-p", operations)
    said = kube.kubectl(*patch, code=1)
    assert "data: Invalid value: {}: field is immutable" in said
    kube.kubectl("delete", "controllerrevision", "web-1")


def test_a_pod_group_is_made_shown_and_removed(kube: KubeCluster) -> None:
    gang = {"gang": {"minCount": 2}}
    head = {"apiVersion": "scheduling.k8s.io/v1alpha2"}
    templates = [{"name": "t", "schedulingPolicy": gang}]
    spec = {"podGroupTemplates": templates}
    apply(kube, {**head, "kind": "Workload", "metadata": {"name": "w"}, "spec": spec})
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    spec = {"podGroupTemplateRef": reference, "schedulingPolicy": gang}
    apply(kube, {**head, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
    header, row = kube.kubectl("get", "podgroups").splitlines()
    assert header.split() == ["NAME", "POLICY", "WORKLOAD", "STATUS", "AGE"]
    assert row.split()[:4] == ["g", "Gang", "w", "Pending"]
    assert "Disruption Mode:" in kube.kubectl("describe", "podgroup", "g")
    release = '{"metadata": {"finalizers": null}}'
    kube.kubectl("patch", "podgroup", "g", "--type=merge", "-p", release)
    kube.kubectl("delete", "podgroup/g", "workload/w")


def test_a_claim_for_a_device_is_made_allocated_and_removed(kube: KubeCluster) -> None:
    """apply, apply again, get, patches of the status and of the spec, delete."""
    head = {"apiVersion": "resource.k8s.io/v1"}
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    device = {"name": "gpu-0", "attributes": {"model": {"string": "H100"}}}
    device["capacity"] = {"memory": {"value": "80Gi"}}
    of_pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    of_slice = {"driver": "gpu.example.com", "pool": of_pool, "nodeName": "node-1"}
    asked = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    request = {"name": "gpu", "exactly": asked}
    specs = {
        "DeviceClass": {"selectors": selectors},
        "ResourceSlice": {**of_slice, "devices": [device]},
        "ResourceClaim": {"devices": {"requests": [request]}},
    }
    objects = [
        {**head, "kind": kind, "metadata": {"name": "gpu"}, "spec": spec}
        for kind, spec in specs.items()
    ]
    assert apply(kube, *objects).count(" created\n") == 3
    assert apply(kube, *objects).count(" unchanged\n") == 3

    header, row = kube.kubectl("get", "resourceslices").splitlines()
    assert header.split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert row.split()[:4] == ["gpu", "node-1", "gpu.example.com", "node-1"]
    path = "jsonpath={.spec.devices[0].capacity.memory.value}"
    assert kube.kubectl("get", "resourceslice", "gpu", "-o", path) == "80Gi"

    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    patch = ("patch", "resourceclaim", "gpu", "--type=merge", "-p")
    kube.kubectl(*patch, json.dumps(status), "--subresource=status")
    header, row = kube.kubectl("get", "resourceclaims").splitlines()
    assert header.split() == ["NAME", "STATE", "AGE"]
    assert row.split()[:2] == ["gpu", "allocated"]
    said = kube.kubectl(*patch, '{"spec": {"devices": {"requests": []}}}', code=1)
    assert "spec: Invalid value" in said
    assert "field is immutable" in said
    for kind in specs:
        kube.kubectl("delete", kind, "gpu")


def test_a_replica_set_is_scaled_and_a_job_is_completed(kube: KubeCluster) -> None:
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    template["spec"]["terminationGracePeriodSeconds"] = 0
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    apply(
        kube,
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "scaled"}}
        | {"spec": spec},
    )
    pods = ("get", "pods", "-l", "app=scaled", "-o", "name")
    for replicas in (3, 1):
        kube.kubectl("scale", "rs", "scaled", f"--replicas={replicas}")
        wanted = f"--for=jsonpath={{.status.readyReplicas}}={replicas}"
        kube.kubectl("wait", "rs/scaled", wanted, "--timeout=150s")
        eventually_blocking("the pods", lambda: len(kube.kubectl(*pods).split()), replicas)
    described = ("describe", "rs", "scaled")
    eventually_blocking("the event", lambda: "SuccessfulDelete" in kube.kubectl(*described))
    kube.kubectl("delete", "rs", "scaled")
    eventually_blocking("no pods", lambda: kube.kubectl(*pods), "")
    kube.kubectl("create", "job", "once", "--image=app:1", "--", "date")
    kube.kubectl("wait", "job/once", "--for=condition=complete", "--timeout=150s")
    assert kube.kubectl("get", "job", "once").splitlines()[1].split()[1:3] == ["Complete", "1/1"]
    kube.kubectl("delete", "job", "once")
    found = ("get", "pods", "-l", "job-name=once", "-o", "name")
    eventually_blocking("no pods", lambda: kube.kubectl(*found), "")


def test_unknown_fields_are_refused_by_name(kube: KubeCluster) -> None:
    strange = pod("strange")
    strange["spec"]["colour"] = "red"
    said = kube.kubectl("create", "-f", "-", stdin=json.dumps(strange), code=1)
    assert 'unknown field "spec.colour"' in said


def test_explain_and_discovery_tell_what_there_is(kube: KubeCluster) -> None:
    assert "tolerationSeconds" in kube.kubectl("explain", "pod.spec.tolerations")
    listed = kube.kubectl("api-resources")
    assert "poddisruptionbudgets" in listed
    assert kube.kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "admin" in kube.kubectl("auth", "whoami")


def test_a_watch_shows_what_comes(kube: KubeCluster) -> None:
    kube.kubectl("create", "configmap", "watched", "--from-literal=a=1")
    watch = ("get", "configmap", "watched", "-w", "-o", "jsonpath={.data.a}{'\\n'}")
    watching = kube.start(*watch)
    assert watching.stdout is not None
    assert watching.stdout.readline() == "1\n"
    kube.kubectl("patch", "configmap", "watched", "-p", '{"data": {"a": "2"}}')
    assert watching.stdout.readline() == "2\n"
    watching.terminate()
    watching.communicate(timeout=PATIENCE)


def test_a_node_is_tainted_cordoned_and_drained_as_far_as_budgets_permit(
    kube: KubeCluster,
) -> None:
    kube.kubectl("taint", "node", "node-0001", "for=others:NoSchedule")
    kube.kubectl("create", "pdb", "kept", "--selector=app=kept", "--min-available=1")
    apply(kube, pod("kept", app="kept"), pod("free"))
    kube.kubectl("wait", "pod/kept", "pod/free", "--for=condition=Ready", "--timeout=150s")
    # The budget's controller has counted the pod.
    healthy = "jsonpath={.status.currentHealthy}=1"
    kube.kubectl("wait", "pdb/kept", f"--for={healthy}", "--timeout=150s")
    drain = ("drain", "node-0000", "--force", "--grace-period=0")
    pods = ("get", "pods", "-o", "name")
    draining, said = kube.start(*drain), ""
    assert draining.stdout is not None
    try:
        while "Cannot evict pod as it would violate the pod's disruption budget" not in said:
            said = draining.stdout.readline()
            assert said, "it goes on until the budget permits it"
        assert "SchedulingDisabled" in kube.kubectl("get", "node", "node-0000")
        eventually_blocking("free is gone", lambda: "pod/free" not in kube.kubectl(*pods))
    finally:
        draining.kill()
        draining.communicate()
    kube.kubectl("get", "pod", "kept")
    kube.kubectl("delete", "pdb", "kept")
    kube.kubectl(*drain, "--timeout=150s")
    kube.kubectl("uncordon", "node-0000")
    kube.kubectl("taint", "node", "node-0001", "for-")
