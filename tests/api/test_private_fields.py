"""Which fields of objects are left out of files that are given to others."""

from __future__ import annotations

import pytest

from podsched.api.manifest import to_manifest
from podsched.api.objects import (
    AnyObject,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Pod,
    PodSpec,
    PodTemplate,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from podsched.api.private_fields import without_private_fields


def private_spec() -> PodSpec:
    """A spec with a secret wherever one may be."""
    spec = PodSpec(node_name="n")
    for containers in (spec.containers, spec.init_containers, spec.ephemeral_containers):
        container = containers.add(name="c")
        container.env.add(name="PASSWORD", value="hunter2")
        container.command.append("hunter2")
        container.args.append("hunter2")
        for name in ("liveness_probe", "readiness_probe", "startup_probe"):
            getattr(container, name)["exec"] = {"command": ["hunter2"]}
        container.lifecycle["preStop"] = {"exec": {"command": ["hunter2"]}}
    return spec


def cron_job(spec: PodSpec) -> CronJob:
    item = CronJob()
    item.spec.job_template.spec.template.spec.CopyFrom(spec)
    return item


@pytest.mark.parametrize(
    "kind", [Deployment, DaemonSet, ReplicaSet, StatefulSet, ReplicationController, Job]
)
def test_templates_of_pods_have_no_secrets(kind: type[AnyObject]) -> None:
    item = kind()
    item.spec.template.spec.CopyFrom(private_spec())  # type: ignore[union-attr]
    plain = to_manifest(without_private_fields(item))
    assert "hunter2" in str(to_manifest(item)), "the object itself is as it was"
    assert "hunter2" not in str(plain)
    assert plain["spec"]["template"]["spec"]["nodeName"] == "n"


@pytest.mark.parametrize(
    "item",
    [
        Pod(spec=private_spec()),
        cron_job(private_spec()),
        PodTemplate(template=PodTemplateSpec(spec=private_spec())),
    ],
)
def test_pods_and_templates_of_jobs_have_no_secrets(item: AnyObject) -> None:
    assert "hunter2" not in str(to_manifest(without_private_fields(item)))


def test_the_manifest_that_was_applied_is_left_out() -> None:
    item = Pod()
    name = "kubectl.kubernetes.io/last-applied-configuration"
    item.metadata.annotations.update({name: "hunter2", "other": "stays"})
    assert dict(without_private_fields(item).metadata.annotations) == {"other": "stays"}
