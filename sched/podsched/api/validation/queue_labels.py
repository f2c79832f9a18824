"""Kueue's labels and annotations on pods, PodGroups and Jobs.

Source: Kueue 0.20, pkg/controller/jobframework/validation.go, jobs/{pod,job}. A pod of
Kueue is suspended while it has a gate; here it is until it is bound, and a PodGroup until quota is
reserved.
"""

from __future__ import annotations

from typing import Final

from podsched.api import objects as o
from podsched.api.names import dns1123_subdomain
from podsched.api.queue_labels import (
    ADMISSION_ANNOTATIONS,
    LEAST_PARALLELISM,
    MAX_EXEC_TIME,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
    QUEUE_NAME,
    QUEUE_PRIORITY_CLASS,
)
from podsched.api.validation.place import Place

_BOTH: Final = (
    f"both the '{QUEUE_GROUP_COUNT}' annotation and the '{QUEUE_GROUP_NAME}' label should be set"
)
#: Digits of a number that Go's int holds whatever they are.
_MOST_DIGITS: Final = 18


def validate_queue_labels(at: Place, metadata: o.ObjectMeta) -> None:
    """Validate the labels that pods and PodGroups join queues with."""
    labels, at = metadata.labels, at("metadata.labels")
    if not labels:
        return
    for name in (QUEUE_NAME, QUEUE_PRIORITY_CLASS):
        if name in labels:
            at[name].rule(labels[name], dns1123_subdomain)
    if MAX_EXEC_TIME in labels:
        text = labels[MAX_EXEC_TIME]
        seconds = _number(at[MAX_EXEC_TIME], text)
        if seconds is not None and seconds <= 0:
            at[MAX_EXEC_TIME].invalid(seconds, "should be greater than 0")


def validate_queue_group(at: Place, metadata: o.ObjectMeta) -> None:
    """Validate the name of a pod's group and the number of its pods: each needs the other."""
    labels, annotations = metadata.labels, metadata.annotations
    name, has_count = labels.get(QUEUE_GROUP_NAME, ""), QUEUE_GROUP_COUNT in annotations
    if not name and not has_count:
        return
    name_at, count_at = (
        at("metadata.labels")[QUEUE_GROUP_NAME],
        at("metadata.annotations")[QUEUE_GROUP_COUNT],
    )
    if not name_at.present(name, _BOTH):
        return
    name_at.rule(name, dns1123_subdomain)
    if not count_at.present(has_count, _BOTH):
        return
    text = annotations[QUEUE_GROUP_COUNT]
    count = _number(count_at, text)
    if count is not None and count < 1:
        count_at.invalid(
            text,
            f"incorrect annotation value '{QUEUE_GROUP_COUNT}={text}': group total count should be "
            "greater than zero",
        )


def validate_least_parallelism(at: Place, job: o.Job) -> None:
    """Validate the number of pods with which a Job may start."""
    if LEAST_PARALLELISM not in job.metadata.annotations:
        return
    pods, where = job.spec.parallelism, at("metadata.annotations")[LEAST_PARALLELISM]
    if job.spec.HasField("completions"):
        pods = min(pods, job.spec.completions)
    least = _number(where, job.metadata.annotations[LEAST_PARALLELISM])
    if least is not None and not 0 < least < pods:
        where.invalid(least, f"should be between 0 and {pods - 1}")


def validate_queue_labels_update(
    at: Place, new: o.ObjectMeta, old: o.ObjectMeta, *, reserved: bool
) -> None:
    """Check that what quota was reserved by stays. reserved: whether some is."""
    for name in ADMISSION_ANNOTATIONS if reserved else ():
        text, former = new.annotations.get(name, ""), old.annotations.get(name, "")
        if text != former:  # This runs at each update, so nothing is made for one that stays.
            at("metadata.annotations")[name].fixed(text, former, text)
    now, before, at = new.labels, old.labels, at("metadata.labels")
    if not now and not before:
        return
    if group := before.get(QUEUE_GROUP_NAME, ""):
        name = now.get(QUEUE_GROUP_NAME, "")
        at[QUEUE_GROUP_NAME].fixed(name, group, name)
    for name in (QUEUE_NAME, MAX_EXEC_TIME) if reserved else ():
        at[name].fixed(now.get(name, ""), before.get(name, ""), now.get(name, ""))
    priority, former = now.get(QUEUE_PRIORITY_CLASS, ""), before.get(QUEUE_PRIORITY_CLASS, "")
    if reserved and priority and not former:
        reason = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        at[QUEUE_PRIORITY_CLASS].invalid(priority, reason)
    if former and not priority:
        reason = "WorkloadPriorityClass cannot be removed from a workload"
        at[QUEUE_PRIORITY_CLASS].invalid("", reason)


def _number(at: Place, text: str) -> int | None:
    """Return the number, or None after adding an error."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        at.invalid(text, f'strconv.Atoi: parsing "{text[:100]}": invalid syntax')
    elif len(digits.lstrip("0")) > _MOST_DIGITS:
        at.invalid(text, f'strconv.Atoi: parsing "{text[:100]}": value out of range')
    else:
        return int(text)
    return None
