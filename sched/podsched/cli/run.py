"""``sched run``: create a pod, or a gang of pods that start together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from podsched.api.manifest import ManifestError, from_manifest
from podsched.api.objects import AnyObject
from podsched.api.quantity import QuantityError, parse
from podsched.cli.client import Namespace, ServerFlags
from podsched.cli.errors import USAGE, fail, fail_on
from podsched.cli.flags import takes_flags
from podsched.cli.manifests import Manifests
from podsched.cli.objects import Writer, write_objects
from podsched.cli.options import DryRun, DryRunOption
from podsched.config.flags import flag

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    gang: int = flag(0, "N", min=0, max=_MOST)
    """Make a PodGroup of N pods, NAME-0 and so on, that start together or not at all."""
    topology: str = flag("", "LABEL")
    """Keep the gang on nodes that share the value of a label, such as
    topology.kubernetes.io/zone."""
    cpu: str = flag("", "QUANTITY")
    """CPU that each pod requests, such as 500m or 4."""
    memory: str = flag("", "QUANTITY")
    """Memory that each pod requests, such as 2Gi."""
    priority_class: str = flag("", "NAME")
    """PriorityClass of the pods and of the gang."""


@takes_flags
def run(
    given: _Flags,
    words: Annotated[list[str], typer.Argument(metavar="NAME -- IMAGE [COMMAND ...]")],
    namespace: Namespace = "default",
    dry_run: DryRunOption = DryRun.NONE,
) -> None:
    """Create a pod or, with --gang, pods that start together.

    On hollow nodes they are shown as Running, but nothing runs.
    """
    if len(words) < 2:
        fail("the image is missing: sched run [--gang N] NAME -- IMAGE [COMMAND ...]", USAGE)
    if given.topology and not given.gang:
        fail("--topology needs --gang", USAGE)
    for option, amount in (("--cpu", given.cpu), ("--memory", given.memory)):
        with fail_on(QuantityError, about=option, code=USAGE):
            parse(amount or "0")
    name, image, *command = words
    documents = _documents(given, namespace, name, image, command)
    with fail_on(ManifestError, code=USAGE):
        objects = [from_manifest(document, strict=True).message for document in documents]
    write_objects(given.server, Manifests(objects, []), create_in_order, dry_run)


async def create_in_order(writer: Writer, objects: Sequence[AnyObject]) -> None:
    """Create the first object, and the others unless it failed: pods need their group."""
    await writer.create(objects[:1])
    if not writer.failures:
        await writer.create(objects[1:])


def _documents(
    given: _Flags, namespace: str, name: str, image: str, command: list[str]
) -> list[dict[str, Any]]:
    """Return the manifests of the group, if there is one, and of the pods."""
    amounts = {"cpu": given.cpu, "memory": given.memory}
    requests = {resource: amount for resource, amount in amounts.items() if amount}
    container: dict[str, Any] = {"name": "main", "image": image}
    if command:
        container["command"] = command
    if requests:
        container["resources"] = {"requests": requests}
    priority = {"priorityClassName": given.priority_class} if given.priority_class else {}
    spec: dict[str, Any] = {"containers": [container], **priority}
    metadata = {"namespace": namespace, "labels": {"run": name}}

    def pod(name: str) -> dict[str, Any]:
        named = {"name": name, **metadata}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}

    if not given.gang:
        return [pod(name)]
    policy = {"gang": {"minCount": given.gang}}
    group_spec: dict[str, Any] = {"schedulingPolicy": policy, **priority}
    if given.topology:
        group_spec["schedulingConstraints"] = {"topology": [{"key": given.topology}]}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, **metadata},
        "spec": group_spec,
    }
    spec["schedulingGroup"] = {"podGroupName": name}
    return [group, *(pod(f"{name}-{i}") for i in range(given.gang))]
