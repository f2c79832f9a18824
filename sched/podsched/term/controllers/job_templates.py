"""Make the pods of a Job from its template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podsched.api.objects import Job, Pod, PodGroup, PodTemplateSpec, copy_of
from podsched.api.queue_labels import (
    MAX_EXEC_TIME,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
    QUEUE_NAME,
    QUEUE_PRIORITY_CLASS,
)
from podsched.term.controllers.job_plan import NewPod
from podsched.term.controllers.job_pods import is_indexed
from podsched.term.controllers.pod_records import COMPLETION_INDEX, JOB_TRACKING
from podsched.term.controllers.pod_writes import PodWrites

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
#: As SimpleNameGenerator of Kubernetes: names have up to 63 characters, the last 5 are random.
_LONGEST_PREFIX: Final = 63 - 5


def new_pods(
    writes: PodWrites, job: Job, wanted: Sequence[NewPod], group: PodGroup | None
) -> list[Pod]:
    """Return pods of a Job that are to be created; they count from now on.

    ``group``: the PodGroup that they belong to.
    """
    template = copy_of(job.spec.template)
    # They may have changed since the API server gave them to the template.
    for name in (QUEUE_NAME, QUEUE_PRIORITY_CLASS, MAX_EXEC_TIME):
        if name in job.metadata.labels:
            template.metadata.labels[name] = job.metadata.labels[name]
    if JOB_TRACKING not in template.metadata.finalizers:
        template.metadata.finalizers.append(JOB_TRACKING)
    if is_indexed(job):
        _add_index_variable(template)
    if group is not None:
        # Kubernetes also makes it their owner. But it is there as long as they are, so they would
        # have an owner when the Job is deleted, and stay.
        template.spec.scheduling_group.pod_group_name = group.metadata.name
    return [_new_pod(writes, job, template, new) for new in wanted]


def _new_pod(writes: PodWrites, job: Job, template: PodTemplateSpec, new: NewPod) -> Pod:
    name = job.metadata.name
    if new.completion < 0:
        return writes.new_pod(job, template, f"{name}-")
    suffix = f"-{new.completion}-"
    prefix = name[: _LONGEST_PREFIX - len(suffix)] + suffix
    pod = writes.new_pod(job, template, prefix, new.completion)
    pod.metadata.annotations[COMPLETION_INDEX] = str(new.completion)
    pod.metadata.annotations.update(new.annotations)
    pod.metadata.labels[COMPLETION_INDEX] = str(new.completion)
    pod.spec.hostname = f"{name}-{new.completion}"
    return pod


def _add_index_variable(template: PodTemplateSpec) -> None:
    """Give each container its pod's completion index in an environment variable."""
    path = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in (*template.spec.init_containers, *template.spec.containers):
        if all(variable.name != _INDEX_VARIABLE for variable in container.env):
            container.env.add(name=_INDEX_VARIABLE).value_from.update(path)


def leave_queue_group(job: Job, pods: Sequence[Pod]) -> None:
    """Remove, in place, the labels with which the API server puts new pods of a Job into a group.

    Once a pod has succeeded, the group never has all members again: new ones would wait forever.
    """
    for pod in pods:
        if pod.metadata.labels.get(QUEUE_GROUP_NAME) == job.metadata.name:
            del pod.metadata.labels[QUEUE_GROUP_NAME]
            pod.metadata.annotations.pop(QUEUE_GROUP_COUNT, None)
