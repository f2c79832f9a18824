"""Jobs and CronJobs (pkg/apis/batch/validation)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from podsched.api import objects as o
from podsched.api.codec import write
from podsched.api.names import dns1123_label, dns1123_subdomain
from podsched.api.owners import own_labels_of_job
from podsched.api.selectors import compile_selector
from podsched.api.validation.meta import validate_labels
from podsched.api.validation.place import Place
from podsched.api.validation.pod_updates import put_back_placement
from podsched.api.validation.queue_labels import (
    validate_least_parallelism,
    validate_queue_labels,
    validate_queue_labels_update,
)
from podsched.api.validation.workloads import check_selector, check_template

_POLICIES = ("OnFailure", "Never")
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("TerminatingOrFailed", "Failed")
_ACTIONS = ("FailJob", "FailIndex", "Ignore", "Count")
_AMOUNTS = (
    *("parallelism", "completions", "active_deadline_seconds", "backoff_limit"),
    *("backoff_limit_per_index", "max_failed_indexes", "ttl_seconds_after_finished"),
)
_CRON_AMOUNTS = (
    "starting_deadline_seconds",
    "successful_jobs_history_limit",
    "failed_jobs_history_limit",
)
#: Fields of a Job that cannot change, since its controller counts pods by them.
_FIXED = (
    *("selector", "completion_mode", "pod_failure_policy", "success_policy", "managed_by"),
    "backoff_limit_per_index",
)
#: Max pods and failed indexes at a time; fewer if more than so many indexes fail one by one.
_MOST_INDEXES, _MOST_OF_MANY = 100_000, 10_000
_OF_INDEXES = ("backoff_limit_per_index", "max_failed_indexes")
_MOST_RULES, _MOST_CODES = 20, 255
#: The bytes of managedBy, and its part after the domain (httpPathFmt of apimachinery).
_MOST_MANAGED_BY, _PATH = 63, r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
#: A CronJob's name begins the names of its jobs, which have eleven letters more.
_MAX_CRON_NAME = 52
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = re.compile(r"@every ([0-9]+(\.[0-9]*)?(h|m|s|ms))+")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
#: The least and most of each field of a schedule, and its names.
_FIELDS: tuple[tuple[int, int, Sequence[str]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


def validate_job(at: Place, item: o.Job) -> None:
    """Check the pods, their selector, and what follows from their success and failure."""
    validate_queue_labels(at, item.metadata)
    validate_least_parallelism(at, item)
    spec, at = item.spec, at("spec")
    _check_spec(at, spec)
    check_selector(at, spec.HasField("selector"), spec.selector, spec.template)


def validate_job_creation(at: Place, item: o.Job) -> None:
    """Check that pods can have the names of their indexes as host names, and are the Job's own."""
    if not item.spec.manual_selector:
        _check_generated_selector(at("spec"), item)
    host = f"{item.metadata.name}-{item.spec.completions - 1}"
    is_indexed = item.spec.completion_mode == "Indexed" and item.spec.completions > 0
    if is_indexed and dns1123_label(host):
        reason = f"will not able to create pod with invalid DNS label: {host}"
        at("metadata.name").invalid(item.metadata.name, reason)


def _check_generated_selector(at: Place, item: o.Job) -> None:
    """Check that a Job selects the pods that have its own labels, and its template has these.

    Those of another Job, as in a copy of a stored one, would select the pods of that.
    """
    own, labels = own_labels_of_job(item), item.spec.template.metadata.labels
    # What is malformed was named before.
    if not at.errors and not compile_selector(item.spec.selector).matches(own):
        at("selector").invalid(write(item.spec.selector), "`selector` not auto-generated")
    for key, value in own.items():
        if labels.get(key) != value:
            at("template.metadata.labels")[key].invalid({**labels}, f"must be '{value}'")


def validate_job_update(at: Place, new: o.Job, old: o.Job) -> None:
    """Check that what the controller counts by stays, and its queue unless it is suspended."""
    running = not old.spec.suspend
    validate_queue_labels_update(at, new.metadata, old.metadata, reserved=running)
    at, after, before = at("spec"), new.spec, old.spec
    for each, now, then in at.fields(_FIXED, after, before):
        each.fixed(now, then, "")
    if after.completion_mode != "Indexed":
        at("completions").fixed(after.completions, before.completions, after.completions)
    elif after.completions not in (before.completions, after.parallelism):
        reason = "can only be modified in tandem with spec.parallelism"
        at("completions").invalid(after.completions, reason)
    template = o.copy_of(after.template)
    if _has_no_pods(old):
        _put_back(template, before.template)
    at("template").fixed(template, before.template, "")


def _has_no_pods(job: o.Job) -> bool:
    """Return whether a job is suspended and has no pods, not even some that are going."""
    stopped = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions)
    never_ran = not job.status.HasField("start_time")
    return job.spec.suspend and (stopped or never_ran) and not job.status.active


def _put_back(template: o.PodTemplateSpec, old: o.PodTemplateSpec) -> None:
    """Set what such a job may change: where its pods go, and the resources of containers."""
    put_back_placement(template.spec, old.spec)
    for name in ("labels", "annotations"):
        o.copy_field(template.metadata, old.metadata, name)
    for name in ("tolerations", "scheduling_gates"):
        o.copy_field(template.spec, old.spec, name)
    for containers, before in (
        (template.spec.containers, old.spec.containers),
        (template.spec.init_containers, old.spec.init_containers),
    ):
        for container, original in zip(containers, before, strict=False):
            if container.name == original.name:
                o.copy_field(container, original, "resources")


def validate_cron_job(at: Place, item: o.CronJob) -> None:
    """Check the schedule, the job, and how many jobs are kept."""
    if len(item.metadata.name) > _MAX_CRON_NAME:
        reason = f"must be no more than {_MAX_CRON_NAME} characters"
        at("metadata.name").invalid(item.metadata.name, reason)
    spec, at = item.spec, at("spec")
    if at("schedule").present(spec.schedule) and (why := _schedule_error(spec.schedule)):
        at("schedule").invalid(spec.schedule[:100], why)
    if spec.HasField("time_zone") and not _is_zone(spec.time_zone):
        at("timeZone").invalid(spec.time_zone[:100], f"unknown time zone {spec.time_zone[:100]}")
    at("concurrencyPolicy").one_of(spec.concurrency_policy, ("Allow", "Forbid", "Replace"))
    for each, value in at.fields(_CRON_AMOUNTS, spec):
        each.least(value)
    _check_spec(at("jobTemplate.spec"), spec.job_template.spec)


def _check_spec(at: Place, spec: o.JobSpec) -> None:
    for each, value in at.fields(_AMOUNTS, spec):
        each.least(value)
    _check_managed_by(at("managedBy"), spec)
    at("completionMode").one_of(spec.completion_mode, _MODES)
    at("podReplacementPolicy").one_of(spec.pod_replacement_policy, _REPLACEMENTS)
    if spec.completion_mode == "Indexed":
        _check_indexed(at, spec)
    else:
        for name in filter(spec.HasField, _OF_INDEXES):
            for each, value in at.fields([name], spec):
                each.invalid(value, "requires indexed completion mode")
    if spec.HasField("max_failed_indexes") and not spec.HasField("backoff_limit_per_index"):
        at("backoffLimitPerIndex").required("when maxFailedIndexes is specified")
    validate_labels(at("template.metadata.labels"), spec.template.metadata.labels)
    check_template(at("template"), spec.template, *_POLICIES)
    if spec.HasField("pod_failure_policy"):
        if spec.template.spec.restart_policy != "Never":
            reason = 'only "Never" is supported when podFailurePolicy is specified'
            at("template.spec.restartPolicy").invalid(spec.template.spec.restart_policy, reason)
        _check_failure_policy(at("podFailurePolicy.rules"), spec)
        if spec.pod_replacement_policy != "Failed":
            at("podReplacementPolicy").one_of(spec.pod_replacement_policy, ("Failed",))
    if spec.HasField("success_policy"):
        _check_success_policy(at("successPolicy"), spec)


def _check_managed_by(at: Place, spec: o.JobSpec) -> None:
    """Check the name of the controller that a Job is left to, if there is one."""
    name = spec.managed_by
    if not spec.HasField("managed_by") or not at.within(len(name), _MOST_MANAGED_BY):
        return
    domain, _, path = name.partition("/")
    if not (domain and path):
        at.invalid(name, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    at.rule(domain, dns1123_subdomain)
    if not re.fullmatch(_PATH, path):
        at.invalid(path, f"Invalid path (regex used for validation is '{_PATH}')")


def _check_indexed(at: Place, spec: o.JobSpec) -> None:
    """Check the numbers of a Job with indexes: its status lists those that have failed."""
    if not spec.HasField("completions"):
        at("completions").required("when completion mode is Indexed")
    failed = spec.HasField("max_failed_indexes")
    if failed and spec.completions < spec.max_failed_indexes:
        reason = "must be less than or equal to completions"
        at("maxFailedIndexes").invalid(spec.max_failed_indexes, reason)
    limit, reason = _MOST_INDEXES, " when completion mode is Indexed"
    if spec.completions > _MOST_INDEXES and spec.HasField("backoff_limit_per_index"):
        limit = _MOST_OF_MANY
        reason = (
            f" when completions are above {_MOST_INDEXES} and used with backoff limit per index"
        )
        if not failed:
            must = f"must be specified when completions is above {_MOST_INDEXES}"
            at("maxFailedIndexes").required(must)
    for each, value in at.fields(("parallelism", "max_failed_indexes"), spec):
        if value > limit:
            each.invalid(value, f"must be less than or equal to {limit}{reason}")


def _check_failure_policy(at: Place, spec: o.JobSpec) -> None:
    pod = spec.template.spec
    names = {container.name for container in (*pod.containers, *pod.init_containers)}
    for each, rule in at.each(spec.pod_failure_policy.rules, _MOST_RULES):
        each("action").one_of(rule.action, _ACTIONS)
        each("action").present(rule.action, f"valid values: {', '.join(_ACTIONS)}")
        if rule.action == "FailIndex" and not spec.HasField("backoff_limit_per_index"):
            each("action").invalid(rule.action, "requires the backoffLimitPerIndex to be set")
        codes = rule.on_exit_codes
        if rule.HasField("on_exit_codes") == bool(rule.on_pod_conditions):
            each.invalid("", "specifying one of OnExitCodes and OnPodConditions is required")
        if rule.HasField("on_exit_codes"):
            place = each("onExitCodes")
            place("operator").one_of(codes.operator, ("In", "NotIn"), required=True)
            if codes.HasField("container_name") and codes.container_name not in names:
                reason = "must be one of the container or initContainer names in the pod template"
                place("containerName").invalid(codes.container_name, reason)
            place("values").present(codes.values, "at least one value is required")
            place("values").bounded(codes.values, _MOST_CODES)
            if codes.operator == "In" and 0 in codes.values:
                place("values").invalid(0, "must not be 0 for the In operator")
        for inner, condition in each("onPodConditions").each(rule.on_pod_conditions, _MOST_RULES):
            inner("status").one_of(condition.status, ("True", "False", "Unknown"))


def _check_success_policy(at: Place, spec: o.JobSpec) -> None:
    if spec.completion_mode != "Indexed":
        at.invalid("", "requires indexed completion mode")
    rules = spec.success_policy.rules
    at("rules").present(rules, "at least one rules must be specified")
    for each, rule in at("rules").each(rules, _MOST_RULES):
        most, of = spec.completions, "the number of specified completions"
        if rule.HasField("succeeded_indexes"):
            if not _are_indexes(rule.succeeded_indexes, spec.completions):
                reason = "must be indexes below completions in ascending order, such as 0,2-4"
                each("succeededIndexes").invalid(rule.succeeded_indexes[:100], reason)
                continue
            most, of = _number_of(rule.succeeded_indexes), "the number of specified indexes"
        elif not rule.HasField("succeeded_count"):
            each.required("at least one of succeededCount or succeededIndexes must be specified")
        each("succeededCount").least(rule.succeeded_count)
        if rule.succeeded_count > most:
            reason = f"must be less than or equal to {most} ({of})"
            each("succeededCount").invalid(rule.succeeded_count, reason)


def _are_indexes(text: str, below: int) -> bool:
    """Return whether a text is a list of indexes, or intervals of some, in ascending order."""
    if not text:
        return True
    if not re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", text):
        return False
    indexes = [int(index) for index in re.split("[-,]", text)]
    return indexes[-1] < below and all(one < other for one, other in pairwise(indexes))


def _number_of(text: str) -> int:
    """Return how many indexes a list of indexes and intervals has."""
    spans = (part.partition("-") for part in text.split(",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


# ------------------------------------------------------------------ schedules


def _schedule_error(schedule: str) -> str:
    """Return what is wrong with a schedule in cron's format; "" if nothing."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@"):
        known = schedule in _MACROS or (len(schedule) < 100 and _EVERY.fullmatch(schedule))
        return "" if known else f"unrecognized descriptor: {schedule[:100]}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS) or len(schedule) > 1000:
        return f"expected exactly 5 fields, found {len(fields)}: [{schedule[:100]}]"
    for field, (least, most, names) in zip(fields, _FIELDS, strict=True):
        if not all(_is_range(part, least, most, names) for part in field.split(",")):
            return f"failed to parse {field[:100]!r}: values from {least} to {most}"
    return ""


def _is_range(part: str, least: int, most: int, names: Sequence[str]) -> bool:
    """Return whether a part of a field is "*", a value or a range, perhaps with a step."""
    span, slash, step = part.partition("/")
    if slash and not (step.isascii() and step.isdigit() and 0 < int(step[:9]) <= 10**8):
        return False
    if span in ("*", "?"):
        return True
    first, dash, last = span.partition("-")
    values = [_value(text, names, least) for text in ([first, last] if dash else [first])]
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return False
    return least <= numbers[0] <= numbers[-1] <= most


def _value(text: str, names: Sequence[str], least: int) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + least
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else None


def _is_zone(name: str) -> bool:
    # "Local" is that of the controller's machine; Kubernetes refuses it, too.
    if not re.fullmatch(r"[A-Za-z0-9_+\-/]{1,100}", name) or name.lower() == "local":
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
