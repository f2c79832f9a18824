"""Create a Workload and a PodGroup for a Job whose pods are to start together.

Such a Job is Indexed, runs all its pods at the same time (completions = parallelism > 1), and its
template names no group. It must be new: pods that exist already are in no group.

    no Workload refers to the Job          one is created, with one template of a gang
    that Workload has no PodGroup          one is created
    both exist and the Job controls them   new pods name the PodGroup
    others exist                           the Job's pods are in no group

Those of a former Job of the same name do not count: they are about to be collected, which in
Kubernetes leaves the pods of the new one without a group.

Names depend only on the Job, so a new leader creates nothing twice. Source:
pkg/controller/job/job_scheduling_manager.go of Kubernetes 1.36 (gate WorkloadWithJob).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from podsched.api.objects import AnyObject, Job, ObjectMeta, PodGroup, Workload, object_key
from podsched.api.owners import add_controller, add_owner, controller_of
from podsched.lib.groups import Groups
from podsched.serve.client.errors import ClientError
from podsched.term.controllers.controller import Objects, find
from podsched.term.controllers.write_queues import Writes

GANG_KINDS: Final = ("Workload", "PodGroup")
#: The alphabet of SafeEncodeString in k8s.io/apimachinery/pkg/util/rand.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME: Final = 253


class Gang(NamedTuple):
    """The group of a Job's pods."""

    is_made: bool
    """False: its objects are being created, so pods must not be created yet."""
    group: PodGroup | None = None
    """The group of its pods; None for pods without one."""


class JobGangs:
    """See the module. ``record`` records an event: about, reason, message."""

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        record: Callable[[ObjectMeta, str, str], None],
        notify: Callable[[str], None],
    ) -> None:
        self._objects = objects
        self._writes = writes
        self._record = record
        self._notify = notify
        #: The Workloads by the Job's key with its kind, the PodGroups by the Workload's.
        self._parts = Groups[str, str, None]()

    def changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        before, after = _whole_of(old), _whole_of(new)
        if before != after:
            self._parts.drop(before, key)
            if after:
                self._parts.put(after, key, None)
        for item in (old, new):
            job = controller_of(item.metadata) if item is not None else None
            if job is not None and job.kind == "Job":
                self._notify(f"{key.partition('/')[0]}/{job.name}")

    def gang_of(self, key: str, job: Job, *, is_new: bool) -> Gang:
        """Return the group of a Job; create its objects if they are missing.

        ``is_new``: whether no pod was ever created.
        """
        if not _is_candidate(job):
            return Gang(True)
        found = (find(self._objects, Workload, one) for one in self._parts.of(f"Job {key}"))
        workloads = [one for one in found if one is not None and not _is_of_former(one, job)]
        if not workloads:
            if is_new:
                self._make(key, job, _workload_for(job))
            return Gang(not is_new)
        workload = workloads[0]
        if len(workloads) > 1 or not _is_of(workload, job):
            return Gang(True)
        if len(workload.spec.pod_group_templates) != 1:
            return Gang(True)
        groups = self._parts.of(f"Workload {object_key(workload)}")
        if not groups:
            self._make(key, job, _group_for(job, workload))
            return Gang(False)
        group = find(self._objects, PodGroup, next(iter(groups)))
        if len(groups) > 1 or group is None or not _is_of(group, job):
            return Gang(True)
        return Gang(True, group)

    def _make(self, key: str, job: Job, item: Workload | PodGroup) -> None:
        def done(error: ClientError | None) -> None:
            if error is None and isinstance(item, Workload):
                message = f"Created Workload {item.metadata.name} for Job {job.metadata.name}"
                self._record(job.metadata, "WorkloadCreated", message)

        self._writes.send(object_key(item), item, lambda: self._notify(key), done=done)


def _is_candidate(job: Job) -> bool:
    spec = job.spec
    indexed = spec.completion_mode == "Indexed" and spec.parallelism > 1
    alone = not spec.template.spec.HasField("scheduling_group")
    return indexed and alone and spec.completions == spec.parallelism


def _is_of(item: AnyObject, job: Job) -> bool:
    owner = controller_of(item.metadata)
    return owner is not None and owner.uid == job.metadata.uid


def _is_of_former(item: AnyObject, job: Job) -> bool:
    """Return whether a Job of the same name that is gone controls an object."""
    owner = controller_of(item.metadata)
    if owner is None or (owner.kind, owner.name) != ("Job", job.metadata.name):
        return False
    return owner.uid != job.metadata.uid


def _whole_of(item: AnyObject | None) -> str:
    """Return kind and key of a Workload's Job, or of a PodGroup's Workload; "" for none."""
    if isinstance(item, Workload):
        whole = item.spec.controller_ref
        is_job = whole.kind == "Job" and whole.api_group == "batch" and whole.name
        return f"Job {item.metadata.namespace}/{whole.name}" if is_job else ""
    if isinstance(item, PodGroup):
        name = item.spec.pod_group_template_ref.workload.workload_name
        return f"Workload {item.metadata.namespace}/{name}" if name else ""
    return ""


def _workload_for(job: Job) -> Workload:
    name = job.metadata.name
    workload = Workload()
    suffix = _hash(f"(types.UID){job.metadata.uid}")
    workload.metadata.name = f"{name[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"
    workload.metadata.namespace = job.metadata.namespace
    add_controller(workload.metadata, job)
    reference = workload.spec.controller_ref
    reference.api_group, reference.kind, reference.name = "batch", "Job", name
    template = workload.spec.pod_group_templates.add(name=f"{name}-pgt-0")
    template.scheduling_policy.gang.min_count = job.spec.parallelism
    return workload


def _group_for(job: Job, workload: Workload) -> PodGroup:
    template = workload.spec.pod_group_templates[0]
    group = PodGroup()
    group.metadata.name = _group_name(workload.metadata.name, template.name)
    group.metadata.namespace = job.metadata.namespace
    add_controller(group.metadata, job)
    add_owner(group.metadata, workload)
    reference = group.spec.pod_group_template_ref.workload
    reference.workload_name = workload.metadata.name
    reference.pod_group_template_name = template.name
    group.spec.scheduling_policy.CopyFrom(template.scheduling_policy)
    return group


def _group_name(workload: str, template: str) -> str:
    """Return the name of a PodGroup: long parts share the room that a name has."""
    suffix = _hash(workload + template)
    room = _LONGEST_NAME - len(suffix) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{suffix}"


def _hash(text: str) -> str:
    """Return the FNV-1a hash of a text, with its digits replaced by letters that form no words."""
    number = 0x811C9DC5
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))
