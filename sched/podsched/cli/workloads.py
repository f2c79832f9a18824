"""Reads the pods of manifests: pods themselves, and the pods that workloads would create."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from podsched.api.defaulting import default_queued_job
from podsched.api.kinds import kind_of
from podsched.api.objects import (
    AnyObject,
    Deployment,
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from podsched.api.owners import follow_template
from podsched.api.queue_labels import QUEUE_NAME
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.manifests import read_known
from podsched.lib.counted import counted

#: Max pods of one command: to simulate more would take minutes.
MAX_PODS = 20_000

_Owner = Deployment | ReplicaSet | ReplicationController | StatefulSet | Job


class Workload(NamedTuple):
    """The pods in their order, and the objects that belong to them (owners, claims, ...)."""

    pods: list[Pod]
    others: list[AnyObject]


def read_workloads(filenames: Sequence[str], replicas: int | None) -> Workload:
    """Return the pods of manifests; ``replicas``: the number of pods of each template or pod.

    They are to be scheduled, even if they were read from a cluster where they run, or have ended.
    Exits if there is no pod, or if there are more than MAX_PODS.
    """
    read = read_known(filenames, "default", strict=False)
    if read.unknown:
        warn(f"skipped {counted(len(read.unknown), 'object')} of kinds that create no pods")
    found = Workload([], [])
    for item in read.objects:
        if not isinstance(item, Pod | _Owner):
            found.others.append(item)
            continue
        number = _replicas(item) if replicas is None else replicas
        if len(found.pods) + number > MAX_PODS:
            fail(f"more than {MAX_PODS:,} pods", USAGE)
        if isinstance(item, Pod):
            found.pods.extend(_copies(item, number))
        else:
            _add_pods(item, number, found)
    if not found.pods:
        fail(f"{', '.join(filenames)}: no pod, and no workload that creates pods", USAGE)
    for pod in found.pods:
        pod.spec.node_name = ""
        pod.status.ClearField("phase")
    return found


def _replicas(item: Any) -> int:
    field = "parallelism" if isinstance(item, Job) else "replicas"
    given = not isinstance(item, Pod) and item.spec.HasField(field)
    return max(0, getattr(item.spec, field)) if given else 1


def _copies(pod: Pod, number: int) -> Iterator[Pod]:
    if number == 1:
        yield pod
        return
    for index in range(number):
        one = deepcopy(pod)
        one.metadata.name = f"{pod.metadata.name or 'pod'}-{index + 1}"
        one.metadata.uid = ""
        one.ClearField("status")  # It may name the pod's claims.
        yield one


def _add_pods(owner: _Owner, number: int, found: Workload) -> None:
    """Add the owner as the scheduler sees it, and the pods that its controller would create."""
    meta = owner.metadata
    meta.name = meta.name or "unnamed"
    if isinstance(owner, Deployment):
        # The pods of a Deployment belong to one of its ReplicaSets.
        template, selector = owner.spec.template, owner.spec.selector
        owner = ReplicaSet(metadata=meta)
        owner.spec.template.CopyFrom(template)
        owner.spec.selector.CopyFrom(selector)
    owner.metadata.uid = f"simulated-{kind_of(owner).name}-{meta.namespace}-{meta.name}"
    if isinstance(owner, Job):
        _let_join_queue(owner, number)
    else:
        owner.spec.replicas = number
        found.others.append(owner)
    template = owner.spec.template
    for index in range(number):
        pod = Pod(spec=template.spec)
        pod.metadata.name = f"{meta.name}-{index}"
        follow_template(pod.metadata, template.metadata, owner)
        if isinstance(owner, StatefulSet):
            found.others.extend(_claims(owner, pod))
        found.pods.append(pod)


def _let_join_queue(job: Job, number: int) -> None:
    """Let the pods of a Job in a queue join the queue, as the API server does."""
    if QUEUE_NAME in job.metadata.labels:
        together = job.spec.completions in (0, job.spec.parallelism or 1)
        # Only whether all run together matters.
        job.spec.parallelism, job.spec.completions = number, number + (not together)
        default_queued_job(job)


def _claims(owner: StatefulSet, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims that a StatefulSet's pod gets, and add them to the pod's volumes."""
    for template in owner.spec.volume_claim_templates:
        volume = template.metadata.name or "data"
        claim = PersistentVolumeClaim(spec=template.spec)
        claim.metadata.name = f"{volume}-{pod.metadata.name}"
        claim.metadata.namespace = pod.metadata.namespace
        pod.spec.volumes.add(name=volume).persistent_volume_claim.claim_name = claim.metadata.name
        yield claim
