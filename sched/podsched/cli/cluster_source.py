"""The cluster that a question is about: manifests, an API server, or a Kubernetes cluster."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsched.api.defaulting import default_object
from podsched.api.device_claims import released
from podsched.api.kinds import KINDS, UNDECIDING_KINDS, WATCHED_KINDS, kind_of
from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import (
    AnyObject,
    LimitRange,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
    PriorityClass,
    ResourceClaim,
    RuntimeClass,
    key_of,
    object_key,
)
from podsched.api.owners import controller_of
from podsched.api.pod_admission import admit_pod
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate
from podsched.cli.client import ServerFlags, with_client
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.kubernetes import access_or_fail, read_cluster
from podsched.cli.manifests import merge_patch_of, read_known
from podsched.cli.options import Form
from podsched.config.flags import flag
from podsched.lib.counted import counted
from podsched.serve.client.api_client import ApiClient

#: Kinds that no answer depends on. Templates do matter: new pods get claims from them.
_IRRELEVANT = UNDECIDING_KINDS - {"ResourceClaimTemplate"} | {"ConfigMap", "Event", "ResourceQuota"}
#: Kinds that are read from a Kubernetes cluster.
_READ = (*(kind for kind in WATCHED_KINDS if kind not in _IRRELEVANT), "PriorityClass")


@dataclass(frozen=True, slots=True)
class ClusterSource(ServerFlags):
    """The source of the cluster's objects; files add to a running cluster."""

    live: bool = flag(False)
    """Use the objects of the API server as the cluster."""
    kubeconfig: Path | None = flag(None, "FILE")
    """Use the objects of the Kubernetes cluster of this kubeconfig; it is only read."""
    context: str = flag("", "NAME")
    """Context of --kubeconfig, in place of the current one."""
    files: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.context and self.kubeconfig is None:
            fail("--context needs --kubeconfig FILE", USAGE)

    @property
    def given(self) -> bool:
        """Whether any of it is given."""
        return bool(self.files) or self.live or self.kubeconfig is not None

    def or_live(self) -> ClusterSource:
        """Return this source, or the API server if nothing is given."""
        return self if self.given else ClusterSource(live=True, server=self.server)

    def objects(self) -> list[AnyObject]:
        """Return the cluster's objects as they are stored; exit if they cannot be read."""
        return self._running() + objects_in_files(self.files)

    def _running(self) -> list[AnyObject]:
        if self.live and self.kubeconfig is not None:
            fail("--live and --kubeconfig name two clusters: use one of them", USAGE)
        if self.kubeconfig is not None:
            return read_cluster(access_or_fail(self.kubeconfig, context=self.context), _READ)
        return with_client(self.server, all_objects) if self.live else []


@dataclass(frozen=True, slots=True)
class QuestionFlags(ClusterSource):
    """Options of commands that answer questions about a cluster."""

    cluster: list[str] | None = flag(None, "FILE|DIR|-")
    """Manifests of the cluster, such as kubectl get nodes,pods -A -o yaml; repeatable."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file."""
    output: Form = flag("table", names="--output -o")
    """Output format."""

    def source(self, files: Sequence[str] = ()) -> ClusterSource:
        """Return the source of the cluster's objects; ``files``: further manifests of it."""
        return replace(self, files=[*(self.cluster or ()), *files]).or_live()


def objects_in_files(filenames: Sequence[str]) -> list[AnyObject]:
    """Return the objects in files; report how many were skipped."""
    if not filenames:
        return []
    found = read_known(filenames, "default", strict=False)
    if count := len(found.unknown):
        warn(f"skipped {counted(count, 'object')} of kinds that no scheduling decision depends on")
    return found.objects


def after_applying(objects: Sequence[AnyObject], manifests: Sequence[AnyObject]) -> list[AnyObject]:
    """Return the cluster's objects after manifests are applied: existing ones keep their status."""
    found = {(kind_of(obj).name, object_key(obj)): obj for obj in objects}
    for manifest in manifests:
        name = kind_of(manifest).name, object_key(manifest)
        there = found.get(name)
        if there is not None:
            manifest = apply_merge_patch(there, merge_patch_of(manifest)).message
        found[name] = manifest
    return list(found.values())


def without_pods(objects: Sequence[AnyObject], pods: Sequence[Pod]) -> list[AnyObject]:
    """Return the cluster's objects without these pods, which must not compete with themselves.

    Claims that were made for them go, too, and those that they use with others are released.
    """
    names = set(map(key_of, pods))
    gone = {o.metadata.uid for o in objects if isinstance(o, Pod) and key_of(o) in names} - {""}
    left: list[AnyObject] = []
    for item in objects:
        if isinstance(item, Pod) and key_of(item) in names:
            continue
        if isinstance(item, ResourceClaim | PersistentVolumeClaim):
            owner = controller_of(item.metadata)
            if owner is not None and owner.uid in gone:
                continue
        if isinstance(item, ResourceClaim):
            for uid in gone:
                item = released(item, uid) or item
        left.append(item)
    return left


async def all_objects(client: ApiClient) -> list[AnyObject]:
    """Return all objects of an API server that decisions may read. Raises ClientError."""
    found: list[AnyObject] = []
    for kind in KINDS.values():
        if kind.name not in _IRRELEVANT:
            found += (await client.list(kind.name)).items
    return found


def admit(objects: Sequence[AnyObject], pods: Sequence[Pod]) -> None:
    """Default and admit objects as an API server does; exit for a pod that it would refuse.

    ``pods`` are to be created. Objects with a uid were read from a server, and are admitted
    already.
    """
    new = [not pod.metadata.uid for pod in pods]
    problems = _default([*objects, *pods], {id(pod) for pod in pods})
    for pod, is_new in zip(pods, new, strict=True):
        if is_new and (why := _refusal(objects, pod)):
            fail(f'pods "{pod.metadata.name}" is forbidden: {why}')
        found = [*problems, *validate("Pod", pod)]
        if found:
            lines = "\n".join(f"  {problem}" for problem in found)
            fail(f'Pod "{pod.metadata.name}" is invalid:\n{lines}')


def _refusal(objects: Sequence[AnyObject], pod: Pod) -> str:
    """Apply limit ranges and the RuntimeClass to a pod; return why they forbid it, or ""."""
    namespace, name = pod.metadata.namespace, pod.spec.runtime_class_name
    ranges = [o for o in objects if isinstance(o, LimitRange) and o.metadata.namespace == namespace]
    classes = (o for o in objects if isinstance(o, RuntimeClass) and o.metadata.name == name)
    return admit_pod(pod, sorted(ranges, key=lambda o: o.metadata.name), next(classes, None))


def _default(objects: Sequence[AnyObject], always: Collection[int]) -> list[Any]:
    """Set defaults as an API server does; return the errors.

    ``always``: the ids of objects that get defaults even if they have a uid.
    """
    classes = PriorityClasses(o for o in objects if isinstance(o, PriorityClass))
    now = time.time()
    problems: list[Any] = []
    for index, obj in enumerate(objects):
        if obj.metadata.uid and id(obj) not in always:
            continue  # Read from a server, which has defaulted it.
        status = PodStatus()
        if isinstance(obj, Pod):
            status.CopyFrom(obj.status)
        problems += default_object(obj, now=now, uid=f"simulated-{index}", priority_classes=classes)
        if isinstance(obj, Pod):
            # Defaulting resets the status, as for a pod being created; these may be running.
            obj.status.CopyFrom(status)
        elif isinstance(obj, PersistentVolume) and not obj.spec.claim_ref.uid:
            obj.status.phase = "Available"  # The volume controller makes it so.
    return problems
