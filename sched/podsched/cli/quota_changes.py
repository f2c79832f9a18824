"""Changes of queues in a simulation or replay: another quota, another weight in fair sharing.

``sched simulate --quota`` shows which waiting units another quota would admit, and where.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any, Final

from pydantic.alias_generators import to_camel

from podsched.api.objects import AnyObject, ClusterQueue, Cohort
from podsched.api.quantity import QuantityError
from podsched.api.validation import validate
from podsched.cli.cluster_source import admit, after_applying, without_pods
from podsched.cli.config import read_source
from podsched.cli.errors import FAILED, USAGE, fail, fail_on
from podsched.cli.output import show_answer
from podsched.cli.policy import ConfigSource
from podsched.cli.printers import wrapped
from podsched.cli.workloads import Workload
from podsched.framework.plugin import PluginError
from podsched.lab.replay.queue_changes import UnitResult, play_change
from podsched.lib.counted import listed
from podsched.queues.amounts import amount, amount_text
from podsched.registry import factories

_FORM: Final = "QUEUE/[FLAVOR/]RESOURCE=+N, -N or =N, such as research/nvidia.com/gpu=+8"
_CHANGE: Final = re.compile(r"([^/=]+)/([^=]+)=([+=-]?)([^+=-].*)")
_WEIGHT: Final = re.compile(r"([^/=]+)=([0-9]+(?:\.[0-9]+)?)")
#: Max names in a message, and nodes of a unit, that are shown.
_NAMED: Final = 10


def quota_changes(
    objects: list[AnyObject],
    workload: Workload,
    changes: Sequence[str],
    source: ConfigSource,
    *,
    as_json: bool,
) -> int:
    """Simulate changes of quota and print the results; return the exit code."""
    objects = after_applying(without_pods(objects, workload.pods), workload.others)
    before = [*objects, *workload.pods]
    config, _ = read_source(source)
    admit(objects, workload.pods)
    after = list(before)
    texts = [change_quota(after, change) for change in changes]
    with fail_on(QuantityError, PluginError):
        results = play_change(before, after, config, factories())
    units = [{to_camel(name): of for name, of in asdict(one).items()} for one in results]
    show_answer({"quotas": texts, "units": units}, _lines(texts, results), as_json=as_json)
    return 0 if all(one.nodes and not one.why for one in results) else FAILED


def queue_named(change: str) -> str:
    """Return the name of the queue that a change of quota or weight is about."""
    return re.split("[/=]", change, maxsplit=1)[0]


def change_weight(objects: list[AnyObject], text: str) -> str:
    """Replace the queue by a copy with another weight; return a text about the change."""
    parts = _WEIGHT.fullmatch(text)
    if parts is None:
        fail(f"--weight {text}: is not QUEUE=N, such as research=2.5", USAGE)
    place, item = _queue(objects, parts[1], f"--weight {text}")
    changed = deepcopy(item)
    changed.spec.fair_sharing.weight = parts[2]
    _replace(objects, place, changed, f"--weight {text}")
    was = item.spec.fair_sharing.weight or "1"
    return f"{type(item).__name__} {parts[1]}: weight={parts[2]} (was {was})"


def change_quota(objects: list[AnyObject], text: str) -> str:
    """Replace the queue by a copy with another quota; return a text about the change."""
    parts = _CHANGE.fullmatch(text)
    if parts is None:
        fail(f"--quota {text}: is not {_FORM}", USAGE)
    name, wanted, sign, number = parts.groups()
    place, item = _queue(objects, name, f"--quota {text}")
    changed = deepcopy(item)
    flavor, quota = _quota(changed, wanted, text)
    with fail_on(QuantityError, about=f"--quota {text}", code=USAGE):
        old, new = amount(quota.name, quota.nominal_quota), amount(quota.name, number)
    if sign == "+":
        new = old + new
    elif sign == "-":
        new = old - new
    was, becomes = (amount_text(quota.name, number) for number in (old, new))
    what = f"{type(item).__name__} {name}: {flavor}/{quota.name}"
    if new < 0:
        fail(f"--quota {text}: {what} has {was}, so it cannot have {number} less", USAGE)
    quota.nominal_quota = becomes
    _replace(objects, place, changed, f"--quota {text}")
    return f"{what}={becomes} (was {was})"


def _replace(
    objects: list[AnyObject], place: int, changed: ClusterQueue | Cohort, option: str
) -> None:
    if problems := validate(type(changed).__name__, changed):
        fail(f"{option}: {problems[0]}", USAGE)
    objects[place] = changed


def _queue(
    objects: Sequence[AnyObject], name: str, option: str
) -> tuple[int, ClusterQueue | Cohort]:
    """Return a queue and its place: a ClusterQueue, or a Cohort if no ClusterQueue has the name."""
    found = [
        (place, item)
        for kind in (ClusterQueue, Cohort)
        for place, item in enumerate(objects)
        if isinstance(item, kind) and item.metadata.name == name
    ]
    if not found:
        known = _listed([item.metadata.name for item in objects if isinstance(item, ClusterQueue)])
        what = f'there is no ClusterQueue or Cohort "{name}" (ClusterQueues: {known})'
        fail(f"{option}: {what}", USAGE)
    return found[0]


def _quota(item: ClusterQueue | Cohort, wanted: str, text: str) -> tuple[str, Any]:
    """Return the flavor and the quota that are named; a resource's domain may be left out."""
    quotas = [
        (flavor.name, quota)
        for group in item.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]
    found = [
        (flavor, quota)
        for flavor, quota in quotas
        if wanted in (quota.name, f"{flavor}/{quota.name}")
    ] or [
        (flavor, quota)
        for flavor, quota in quotas
        if wanted in (short := quota.name.rpartition("/")[2], f"{flavor}/{short}")
    ]
    kind, name = type(item).__name__, item.metadata.name
    if not found:
        known = _listed([f"{flavor}/{quota.name}" for flavor, quota in quotas])
        fail(f'--quota {text}: {kind} {name} has no quota of "{wanted}" (it has {known})', USAGE)
    if len(found) > 1:
        names = _listed([f"{name}/{flavor}/{quota.name}" for flavor, quota in found])
        fail(f"--quota {text}: {wanted} is ambiguous: use one of {names}", USAGE)
    return found[0]


def _listed(names: Sequence[str]) -> str:
    return listed(sorted(names), _NAMED) or "none"


# ---------------------------------------------------------------------- results


def _lines(texts: Sequence[str], results: Sequence[UnitResult]) -> Iterator[str]:
    yield from texts
    yield ""
    waiting = [one for one in results if one.nodes or one.why]
    if not waiting:
        yield "No unit is waiting."
    else:
        then = sum(bool(one.nodes) for one in waiting)
        now = sum(one.admitted_without for one in waiting)
        yield (
            f"{then:,} of {len(waiting):,} waiting units would be admitted; {now:,} without the "
            "change."
        )
    if results:
        yield ""
        rows = [["UNIT", "QUEUE", "WITHOUT", "THEN"]]
        rows += [[one.unit, one.cluster_queue, _without(one), _then(one)] for one in results]
        yield from wrapped(rows)


def _without(one: UnitResult) -> str:
    return "admitted" if one.admitted_without else "runs" if one.preempted else "waits"


def _then(one: UnitResult) -> str:
    parts = []
    if one.preempted:
        parts.append(f"preempted: {_listed(one.preempted)}")
    if one.nodes:
        counts = sorted(Counter(one.nodes.values()).items())
        pods = [node if count == 1 else f"{node} ({count} pods)" for node, count in counts]
        parts.append(f"on {_listed(pods)}")
    return "; ".join([*parts, *([one.why] if one.why else [])])
