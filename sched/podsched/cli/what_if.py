"""``sched simulate`` with several pods, or with added, removed or drained nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from podsched.api.node_copies import NodeParts, copy_of_node
from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import (
    AnyObject,
    ClusterQueue,
    LocalQueue,
    Node,
    Pod,
    PodGroup,
    ResourceSlice,
)
from podsched.api.quantity import QuantityError
from podsched.api.queue_labels import QUEUE_NAME
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.evacuation import Move, MoveOutcome, Report, Scenario, play
from podsched.ask.whatif.world import World
from podsched.cli.cluster_source import admit, after_applying, without_pods
from podsched.cli.config import read_source
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, warn
from podsched.cli.manifests import read_known
from podsched.cli.output import show_answer
from podsched.cli.policy import ConfigSource
from podsched.cli.printers import aligned, wrapped
from podsched.cli.workloads import Workload
from podsched.config.load import SchedulerConfiguration
from podsched.framework.local_queues import DEFAULT_QUEUE
from podsched.framework.plugin import PluginError
from podsched.lab.replay.queue_world import QueueWorld
from podsched.registry import factories

#: Max nodes that one command may add.
MAX_NODES = 10_000
#: Max pods that are shown one by one; of more, the number on each node is shown.
_LISTED = 40


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of the cluster in the options."""

    add_node: Sequence[str] = ()
    remove_node: Sequence[str] = ()
    drain: Sequence[str] = ()
    pending: bool = False

    @property
    def given(self) -> bool:
        """Whether any option is given."""
        return bool(self.add_node or self.remove_node or self.drain or self.pending)


def count_in_queues(objects: Iterable[AnyObject], pods: Sequence[Pod]) -> int:
    """Return how many of the pods join queues."""
    joined, with_default = set(), set()
    for item in objects:
        named = item.metadata.namespace, item.metadata.name
        if isinstance(item, LocalQueue) and named[1] == DEFAULT_QUEUE:
            with_default.add(named[0])
        elif isinstance(item, PodGroup) and QUEUE_NAME in item.metadata.labels:
            joined.add(named)
    return sum(
        QUEUE_NAME in pod.metadata.labels
        or pod.metadata.namespace in with_default
        or (pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name) in joined
        for pod in pods
    )


def counts_quota(objects: Sequence[AnyObject], pods: Sequence[Pod]) -> bool:
    """Return whether quota decides about some of the pods, too; warn if it does but cannot here."""
    count = count_in_queues(objects, pods)
    if not count or any(isinstance(item, ClusterQueue) for item in objects):
        return bool(count)
    pods_are = "pod is" if count == 1 else "pods are"
    why = "because there is no ClusterQueue"
    warn(f"quota does not count here, {why}, although {count:,} {pods_are} in a queue")
    return False


def what_if(
    objects: Sequence[AnyObject],
    workload: Workload,
    changes: Changes,
    source: ConfigSource,
    *,
    as_json: bool,
) -> int:
    """Simulate a scenario and print the result; return the exit code."""
    nodes = {o.metadata.name: o for o in objects if isinstance(o, Node)}
    _check_names("--remove-node", changes.remove_node, nodes)
    _check_names("--drain", changes.drain, nodes)
    if both := sorted({*changes.remove_node} & {*changes.drain}):
        fail(f"--remove-node and --drain: {both[0]}: a node is either removed or drained", USAGE)
    parts = NodeParts(objects)
    added = [pair for text in changes.add_node for pair in _added(text, nodes, parts)]
    new_nodes = [node for node, _ in added]
    objects = after_applying(without_pods(objects, workload.pods), workload.others)
    objects += [part for _, parts_of_node in added for part in parts_of_node]
    admit([*objects, *new_nodes], workload.pods)
    pending = changes.pending or bool(added and not workload.pods)
    scenario = Scenario(workload.pods, pending, new_nodes, changes.remove_node, changes.drain)
    config, _ = read_source(source)
    left = {*changes.remove_node, *changes.drain, *([""] if pending else ())}
    concerned = [o for o in objects if isinstance(o, Pod) and o.spec.node_name in left]
    kind = QueueWorld if counts_quota(objects, [*concerned, *workload.pods]) else World
    with fail_on(QuantityError, PluginError):
        report = play(kind.of_objects(objects, config, factories()), scenario)
    show_answer(report_document(report), _lines(report, scenario), as_json=as_json)
    if report.failed:
        return 2
    return 0 if report.fits else FAILED


def world_of(objects: Sequence[AnyObject], config: SchedulerConfiguration) -> World:
    """Return the cluster in memory with these admitted objects; exit if an object is unusable."""
    with fail_on(QuantityError, PluginError):
        return World.of_objects(objects, config, factories())


def _check_names(option: str, names: Sequence[str], nodes: dict[str, Any]) -> None:
    for name in names:
        if name not in nodes:
            fail(f'{option}: there is no node "{name}"', USAGE)


def _added(
    text: str, nodes: dict[str, Any], parts: NodeParts
) -> Iterator[tuple[Node, Sequence[AnyObject]]]:
    """Yield the nodes that ``FILE[:COUNT]`` or ``NODE[:COUNT]`` means, with what comes with them.

    They get names that no other node has.
    """
    what, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal() or len(number) > 9:
        what, number = text, ""
    count = int(number or 1)
    if not 0 < count <= MAX_NODES:
        fail(f"--add-node {text}: the number of nodes must be 1 to {MAX_NODES:,}", USAGE)
    template = nodes.get(what) if not Path(what).exists() else None
    if template is None:
        if what != "-" and not Path(what).exists():
            fail(f'--add-node {text}: there is no node "{what}" and no file of this name', USAGE)
        template, parts = _read_node(what)
    free, like = 0, template.metadata.name
    for _ in range(count):
        name = like
        while name in nodes:
            free += 1
            name = f"{like}-added-{free}"
        nodes[name] = node = copy_of_node(template, name)
        if name != like:
            node.metadata.labels[HOSTNAME] = name
        made = parts.of(name) if name == like else parts.copies(like, name)
        if not template.metadata.uid:  # It is from a file: its copies get defaults as it does.
            for item in (node, *made):
                item.metadata.uid = ""
        yield node, made


def _read_node(file: str) -> tuple[Node, NodeParts]:
    """Return the node in a file with its devices; exit if there is anything else."""
    found = read_known([file], "default", strict=False).objects
    nodes = [o for o in found if isinstance(o, Node)]
    slices = [o for o in found if isinstance(o, ResourceSlice)]
    names = {piece.spec.node_name for piece in slices} - {node.metadata.name for node in nodes}
    if len(nodes) != 1 or len(found) != 1 + len(slices) or names:
        fail(
            f"--add-node {file}: the file must contain exactly one Node, and no other objects "
            "than ResourceSlices of this node",
            USAGE,
        )
    return nodes[0], NodeParts(slices)


# ---------------------------------------------------------------------- results


def report_document(report: Report) -> dict[str, Any]:
    """Return a report as plain data."""
    return {
        "fits": report.fits,
        "pods": [_outcome_document(outcome) for outcome in report.outcomes],
        "moves": [move_document(move) for move in report.moves],
    }


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    found = {
        "pod": outcome.pod.key,
        "node": outcome.node_name,
        "message": outcome.message,
        "rejectedNodes": dict(outcome.rejections),
        "victims": [victim.key for victim in outcome.victims],
    }
    return {name: value for name, value in found.items() if value}


def move_document(move: Move) -> dict[str, Any]:
    """Return a move as plain data."""
    found = {
        "pod": move.pod.key,
        "from": move.from_node,
        "fate": move.outcome.value,
        "to": move.to_node,
        "wave": move.wave,
        "reason": move.reason,
        "budgets": list(move.budgets),
        "victims": [victim.key for victim in move.victims],
    }
    return {name: value for name, value in found.items() if value}


#: What a remark begins with, and the summary of one pod and of several.
_FATES = {
    MoveOutcome.MOVES: ("", "moves to another node", "move to other nodes"),
    MoveOutcome.NO_LONGER_FITS: ("no longer fits: ", "no longer fits", "no longer fit"),
    MoveOutcome.BLOCKED: ("blocked: ", "is blocked by a budget", "are blocked by budgets"),
    MoveOutcome.STAYS: ("stays: ", "stays", "stay"),
    MoveOutcome.LOST: ("lost: ", "is lost", "are lost"),
    MoveOutcome.GOES_WITH_NODE: (
        "goes with the node: ",
        "goes with its node",
        "go with their nodes",
    ),
}


def _lines(report: Report, scenario: Scenario) -> Iterator[str]:
    if scenario.add:
        names = [node.metadata.name for node in scenario.add]
        more = f", ... ({len(names)} nodes)" if len(names) > 3 else ""
        yield f"Added: {', '.join(names[:3])}{more}"
    if report.moves:
        yield from move_lines(report.moves)
    elif scenario.drain or scenario.remove:
        yield "No pod has to move."
    if not report.outcomes:
        if scenario.pending and not report.moves:
            yield "No pod is waiting."
        return
    if report.moves or scenario.add:
        yield ""
    fitting = [outcome for outcome in report.outcomes if outcome.node_name]
    what = "pods fit" if scenario.pods else "waiting pods fit"
    yield f"{len(fitting):,} of {len(report.outcomes):,} {what}."
    if fitting:
        yield ""
        yield from _places(fitting)
    misfits = [outcome for outcome in report.outcomes if not outcome.node_name]
    if misfits:
        yield ""
        yield from wrapped([["WITHOUT A NODE", "WHY"], *_misfits(misfits)])


def move_lines(moves: Sequence[Move]) -> list[str]:
    """Return lines about the pods that must move: their numbers by outcome, and a table."""
    counts = Counter(move.outcome for move in moves)
    parts = [f"{counts[f]:,} {_FATES[f][1 + (counts[f] > 1)]}" for f in MoveOutcome if counts[f]]
    summary = f"Pods concerned: {len(moves):,} ({', '.join(parts)})"
    rows = [["POD", "FROM", "TO", "WAVE", "BUDGET", "REMARK"]]
    for move in moves:
        remark = _FATES[move.outcome][0] + move.reason
        if move.victims:
            keys = ", ".join(victim.key for victim in move.victims)
            remark = f"{remark}; preempts {keys}" if remark else f"preempts {keys}"
        cells = (move.to_node, str(move.wave or ""), ",".join(move.budgets), remark)
        rows.append([move.pod.key, move.from_node, *(cell or "-" for cell in cells)])
    return [summary, "", *wrapped(_filled(rows))]


def _filled(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows without the columns that are "-" in all of them."""
    kept = [i for i in range(len(rows[0])) if any(row[i] != "-" for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def _places(fitting: Sequence[Outcome]) -> list[str]:
    """Return a line for each pod, or for each node where there are many pods."""
    if len(fitting) <= _LISTED:
        rows = [["POD", "NODE", "PREEMPTS"]]
        for one in fitting:
            keys = ", ".join(victim.key for victim in one.victims)
            rows.append([one.pod.key, one.node_name, keys or "-"])
        return wrapped(_filled(rows))
    counts = Counter(outcome.node_name for outcome in fitting)
    if len(counts) <= _LISTED:
        return aligned([["NODE", "PODS"], *([n, f"{k:,}"] for n, k in sorted(counts.items()))])
    spread = Counter(counts.values())
    return aligned(
        [
            ["PODS ON A NODE", "NODES"],
            *([f"{pods:,}", f"{nodes:,}"] for pods, nodes in sorted(spread.items(), reverse=True)),
        ]
    )


def _misfits(misfits: Sequence[Outcome]) -> Iterator[list[str]]:
    """Yield name and reason of each pod; successive pods with the same reason share a line."""
    for why, group in groupby(misfits, key=lambda outcome: outcome.message):
        pods = [outcome.pod.key for outcome in group]
        name = pods[0] if len(pods) == 1 else f"{pods[0]} and {len(pods) - 1:,} more"
        yield [name, why]
