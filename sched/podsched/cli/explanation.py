"""Formats an ``Explanation`` as text for 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from podsched.api.resources import CPU, MEMORY
from podsched.ask.explain.eta import FOREVER
from podsched.cli.node_usage import humanised
from podsched.cli.printers import aligned, terminal_width
from podsched.framework.requirements import FLAG
from podsched.lib.ages import age
from podsched.lib.counted import counted
from podsched.v1.scheduling_pb2 import (
    Attempt,
    Change,
    Explanation,
    FunnelStep,
    NodeGroup,
    NodeScore,
    NodeVerdict,
    PodGroupStanding,
    PodReference,
    PodState,
    Preemption,
    QueueAdmission,
    QueueStanding,
    Shortfall,
)

_WIDTH: Final = 80
_LABEL: Final = 14
_BAR: Final = 30
_STATES: Final = {
    PodState.PENDING: "Pending",
    PodState.BINDING: "Binding",
    PodState.BOUND: "Bound",
    PodState.FINISHED: "Finished",
    PodState.OTHER_SCHEDULER: "For another scheduler",
    PodState.DELETING: "Being deleted",
}
#: Texts for the queues.
_QUEUES: Final = {
    "active": "activeQ: waits for its turn",
    "backoff": "backoffQ: waits until its backoff is over",
    "unschedulable": "unschedulablePods: waits for an event that can help it",
    "gated": "gated: a PreEnqueue plugin keeps it out of the queue",
    "in-flight": "being decided on",
}


def explanation_lines(answer: Explanation, now: float) -> list[str]:
    """Return the lines; ``now``: Unix seconds, for ages."""
    pod, group = answer.pod, answer.pod_group
    of_group = answer.HasField("pod_group") and not answer.HasField("pod")
    if of_group:
        waits = "would start at its next attempt" if group.fits else "waits"
        state = waits if answer.state == PodState.PENDING else "all members have a node"
        lines = [f"PodGroup {group.namespace}/{group.name}: {state}"]
    else:
        state = _STATES.get(answer.state, "Unknown")
        on = f" on {pod.node_name}" if pod.node_name else ""
        lines = [f"Pod {pod.namespace}/{pod.name}: {state}{on}", *_wrapped(answer.message, "  ")]
    lines += _wrapped(_answered(answer), "  ")
    for title, section in _sections(answer, now, of_group=of_group):
        if section:
            lines += ["", title, *section]
    return lines


def _domains(group: PodGroupStanding) -> list[str]:
    if not group.domains:
        return []
    rows = [[group.topology_key or "DOMAIN", "NODES", "HOLDS", "LACKS"]]
    for domain in group.domains:
        cells = domain.nodes, domain.holds, domain.lacks
        rows.append([domain.name or "all nodes", *(f"{number:,}" for number in cells)])
    lines = [f"  {line}" for line in aligned(rows)]
    hidden = group.all_domains - len(group.domains)
    if hidden > 0:
        lines.append(f"  and {counted(hidden, 'more domain')}")
    misfit = group.domains[0].misfit
    if misfit.name:
        lines += _row(group.domains[0].name or "Misfit", f"{misfit.name}: {misfit.message}")
    return lines


def _sections(
    answer: Explanation, now: float, *, of_group: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yield heading and lines of each section, which may have none."""
    if of_group:
        yield "Members", _pod_group(answer.pod_group)
    yield "Queue", _queue(answer, now) if answer.HasField("queue") else _woken_by(answer)
    yield "Admission", _admission(answer.admission)
    if of_group:
        yield "How many members fit", _domains(answer.pod_group)
    else:
        yield from _sections_of_pod(answer, now)
    # These changes were tried on nodes alone.
    quota = " once it has quota" if answer.admission.shortages else ""
    goal = f"let it start{quota}" if of_group else "make it fit"
    yield f"What would {goal}, the least of each kind", _changes(answer.changes)
    yield "When", _eta(answer) if answer.HasField("eta") else []
    yield "Notes", [line for note in answer.notes for line in _wrapped(note, "  ")]


def _sections_of_pod(answer: Explanation, now: float) -> Iterator[tuple[str, list[str]]]:
    yield "Pod group", _pod_group(answer.pod_group) if answer.HasField("pod_group") else []
    yield "Decision", _decision(answer, now) if answer.HasField("decision") else []
    nodes = f"Nodes: {answer.feasible_nodes:,} of {answer.nodes:,} fit"
    yield nodes, _funnel(answer.nodes, answer.funnel)
    yield "Why not", _groups(answer.groups)
    yield "Nodes asked for", [line for node in answer.node_verdicts for line in _verdict(node)]
    yield _scores_heading(answer), _scores(answer.scores)
    yield "Preemption", _preemption(answer.preemption) if answer.HasField("preemption") else []


def _answered(answer: Explanation) -> str:
    by = answer.answered_by
    priority = answer.pod.priority if answer.pod.name else answer.pod_group.priority
    parts = [f"priority {priority}"]
    if answer.scheduler_name:
        parts = [f"profile {answer.scheduler_name}, priority {priority}"]
    if by.replica:
        role = f"leader, term {by.term}" if by.leading else "standby"
        parts.append(f"answered by {by.replica} ({role}) in {by.took_ms:.0f} ms")
    return "; ".join(parts)


def _admission(admission: QueueAdmission) -> list[str]:
    """Return why a unit waits in its ClusterQueue, and what would help."""
    lines = _wrapped(admission.sentence, "  ")
    if admission.local_queue:
        leads_to = f", ClusterQueue {admission.cluster_queue}" if admission.cluster_queue else ""
        lines += _row("Queue", f"{admission.local_queue}{leads_to}")
    if admission.ahead:
        first = admission.ahead_admissible
        names = f": {', '.join(admission.first)}" if admission.first else ""
        lines += _row(
            "Ahead", f"{admission.ahead}, of which {first} would be admitted first{names}"
        )
    if admission.nodes:
        lines += _row("Nodes", admission.nodes)
    for change in admission.changes:
        lines += _row("Would help", change)
    return lines


def _pod_group(group: PodGroupStanding) -> list[str]:
    counts = f"{counted(group.members, 'member')}, {group.with_node:,} with a node"
    if not group.exists:
        waits = "those without one wait for it"
        return _row("Group", f"{group.name}: does not exist; {counts}; {waits}")
    policy = f"a gang of at least {group.min_count}" if group.HasField("min_count") else "basic"
    lines = _row("Group", f"{group.name}: {policy}; {counts}")
    if group.message:
        lines += _row("Says", group.message)
    label = "Stuck"
    for message, members in groupby(group.stuck, key=lambda member: member.message):
        names = ", ".join(member.name for member in members)
        lines += _row(label, f"{names}: {message}")
        label = ""
    more = group.stuck_members - len(group.stuck)
    return lines + (_row("", f"and {more} more") if more else [])


# ---------------------------------------------------------------------- queue


def _queue(answer: Explanation, now: float) -> list[str]:
    queue = answer.queue
    where, since = _QUEUES.get(queue.queue, queue.queue), ""
    if queue.HasField("since"):  # else it is computed from objects: only a gate is known
        since = f" ({age(now - queue.since.ToMilliseconds() / 1000)})"
    lines = _row("Where", where + since)
    if queue.gating_plugin:
        why = "; ".join(queue.gate_reasons)
        lines += _row("Gate", f"{queue.gating_plugin}: {why}" if why else queue.gating_plugin)
    if since:
        lines += _row("Attempts", _attempts(queue, answer.attempts, now))
    rejecting = [*queue.unschedulable_plugins, *queue.pending_plugins]
    if rejecting and not queue.gating_plugin:
        lines += _row("Rejected by", ", ".join(dict.fromkeys(rejecting)))
    if queue.backoff_seconds and queue.queue != "active":
        left = queue.backoff_left_seconds
        whole = f"{queue.backoff_seconds:g}s"
        # Only pods whose attempts failed with an error stay in backoff until its end.
        early = "" if queue.consecutive_errors else "; tried earlier if no other pod is ready"
        lines += _row(
            "Backoff", f"{left:.1f}s left of {whole}{early}" if left else f"over ({whole})"
        )
    lines += _ahead(queue)
    for nomination in answer.nominations:
        whose = "this pod" if nomination.own else _name(nomination.pod)
        lines += _row("Nominated", f"{whose} to {nomination.node_name}")
    lines += _woken_by(answer)
    if queue.HasField("timeout_left_seconds"):
        lines += _row("At the latest", f"tried again in {age(queue.timeout_left_seconds)}")
    return lines


def _woken_by(answer: Explanation) -> list[str]:
    events = ", ".join(e.event for e in answer.wake_events)
    return _row("Woken by", events) if events else []


def _attempts(queue: QueueStanding, attempts: Sequence[Attempt], now: float) -> str:
    if not queue.attempts:
        return "none so far"
    shown = _failed(attempts, now)
    return f"{queue.attempts}: {shown}" if shown else str(queue.attempts)


def _failed(attempts: Sequence[Attempt], now: float) -> str:
    """Return the failed attempts, the latest first."""
    return ", ".join(
        f"{age(now - a.time.ToMilliseconds() / 1000)} ago {a.outcome}" for a in reversed(attempts)
    )


def _ahead(queue: QueueStanding) -> list[str]:
    if queue.queue in ("in-flight", "gated"):
        return []
    woken = "" if queue.queue == "active" else " once it is woken"
    if not queue.ahead:
        return _row("Ahead", f"no pod{woken}")
    names = ", ".join(_name(pod) for pod in queue.pods_ahead[:3])
    more = ", ..." if queue.ahead > 3 else ""
    return _row("Ahead", f"{counted(queue.ahead, 'pod')}{woken}: {names}{more}")


# ---------------------------------------------------------------------- decision


def _decision(answer: Explanation, now: float) -> list[str]:
    made = answer.decision
    at = made.time.ToMilliseconds() / 1000
    term = f", term {made.term}" if made.term else ""
    lines = _row("Decided", f"{age(now - at)} ago by {made.replica}{term}, attempt {made.attempts}")
    together = f" together with {counted(made.together - 1, 'other')}" if made.together > 1 else ""
    spent = f"{made.decided_seconds * 1000:.2f} ms{together}"
    lines += _row("Took", f"{made.waited_seconds:.3f} s in the queue, then {spent}")
    evaluated = f"{made.evaluated_nodes:,} evaluated, {made.feasible_nodes:,} of them fit"
    lines += _row("Nodes", evaluated)
    if answer.attempts:
        lines += _row("Before", _failed(answer.attempts, now))
    if made.pods_between_count:
        count = made.pods_between_count
        number = counted(count, "pod") if count > 0 else "too many pods to count"
        names = ", ".join(f"{_name(p)} on {p.node_name}" for p in made.pods_between[-3:])
        lines += _row("Meanwhile", f"{number} got a node{f', lastly {names}' if names else ''}")
    return lines


# ---------------------------------------------------------------------- nodes


def _funnel(nodes: int, steps: Sequence[FunnelStep]) -> list[str]:
    """Return a bar chart of the nodes that are left after each plugin that rejects some."""
    if not steps:
        return []
    shown = [step for step in steps if step.rejected]
    rows = [["all nodes", f"{nodes:,}", _bar(nodes, nodes), ""]]
    for step in shown:
        lost = f"-{step.rejected:,}"
        if step.rejects_alone > step.rejected:
            lost += f" (alone -{step.rejects_alone:,})"
        rows.append([step.plugin, f"{step.after:,}", _bar(step.after, nodes), lost])
    names = max(len(row[0]) for row in rows)
    counts = max(len(row[1]) for row in rows)
    lines = [f"  {a:<{names}}  {b:>{counts}}  {c:<{_BAR}} {d}".rstrip() for a, b, c, d in rows]
    # A plugin that rejects nodes in PreFilter is no other one in Filter.
    before = {name for step in shown for name in step.plugin.split(", ")}
    others = [s for s in steps if not s.rejected and s.rejects_alone and s.plugin not in before]
    if others:
        listed = ", ".join(f"{s.plugin} ({s.rejects_alone:,})" for s in others)
        lines += _wrapped(f"Also reject nodes that others reject first: {listed}", "  ")
    return lines


def _bar(count: int, whole: int) -> str:
    if not count or not whole:
        return ""
    return "\u2588" * max(1, round(_BAR * count / whole))


def _groups(groups: Sequence[NodeGroup]) -> list[str]:
    lines = []
    for group in groups:
        hopeless = group.code == "UnschedulableAndUnresolvable"
        cannot = " (preemption cannot help)" if hopeless else ""
        by = group.plugin or "PreFilter"
        lines.append(f"  {counted(group.nodes, 'node')}: {by}{cannot}")
        lines += _why(group.reasons, group.shortfalls, group.nodes)
        on = "on" if group.nodes == len(group.examples) else "such as"
        lines += _wrapped(f"{on} {', '.join(group.examples)}", "    ")
    return lines


def _why(reasons: Sequence[str], shortfalls: Sequence[Shortfall], nodes: int) -> list[str]:
    """Return the shortfalls, and the reasons that these do not cover."""
    measured = {f"Insufficient {short.what}" for short in shortfalls}
    lines = []
    for reason in reasons:
        if reason not in measured:
            lines += _wrapped(reason, "    ")
    for shortfall in shortfalls:
        lines += _wrapped(_shortfall(shortfall, nodes), "    ")
    return lines


def _shortfall(short: Shortfall, nodes: int) -> str:
    """Return the lack of one requirement as text: "cpu: lacks 500m to 2 of 4; n1 has 3"."""
    least, most = short.least, short.most
    if short.unit == FLAG:
        text = f"missing: {short.what}"
        return text if short.nodes == nodes else f"{text} ({counted(short.nodes, 'node')})"
    lacks = _amount(short, least.lacks)
    if most.lacks != least.lacks:
        lacks += f" to {_amount(short, most.lacks)}"
    of = f" of {_amount(short, least.wanted)}"
    if short.what.startswith("skew"):
        of = f": it would be {least.wanted}, {least.available} is allowed"
        text = f"{short.what} exceeded by {lacks}{of}"
    else:
        has = _amount(short, max(least.available, 0))
        near = f"; {least.node} has {has}" if nodes > 1 else f", has {has}"
        text = f"{short.what}: lacks {lacks}{of}{near}"
    return text if short.nodes == nodes else f"{text} ({counted(short.nodes, 'node')})"


def _amount(short: Shortfall, amount: int) -> str:
    if short.unit == "m":
        return humanised(CPU, amount)
    return humanised(MEMORY, amount) if short.unit == "bytes" else f"{amount:,}"


def _verdict(verdict: NodeVerdict) -> list[str]:
    by = f" ({verdict.plugin})" if verdict.plugin else ""
    lines = [f"  {verdict.node}: {verdict.code}{by}"]
    lines += _why(verdict.reasons, verdict.shortfalls, 1)
    request = ""
    for of in verdict.parts:
        if of.request != request:
            request = of.request
            lines += _wrapped(f"for {request}", "    ")
        lines += _wrapped(f"{', '.join(of.names)}: {of.why_not or 'free and suitable'}", "      ")
    if verdict.HasField("score"):
        score = verdict.score
        lines.append(f"    scores {score.total}, rank {score.rank}")
    return lines


# ---------------------------------------------------------------------- scores, preemption


def _scores_heading(answer: Explanation) -> str:
    tied = answer.tied_nodes
    if tied > 1:
        taken = "was" if answer.pod.node_name else "is"
        return f"Scores: {tied:,} nodes share the best one, and the first of them {taken} taken"
    return "Scores"


def _scores(scores: Sequence[NodeScore]) -> list[str]:
    """Return a table of nodes; plugins with equal scores are listed below it."""
    if not scores:
        return []
    plugins = [each.plugin for each in scores[0].plugins]
    table = {p.plugin: [0] * len(scores) for p in scores[0].plugins}
    weights = {p.plugin: p.weight for p in scores[0].plugins}
    for column, node in enumerate(scores):
        for each in node.plugins:
            table[each.plugin][column] = each.score
    differing = [p for p in plugins if len(set(table[p])) > 1]
    alike = [p for p in plugins if p not in differing]
    rows = [["NODE", "TOTAL", *(chr(ord("a") + i) for i in range(len(differing)))]]
    for column, node in enumerate(scores):
        rows.append([node.node, str(node.total), *[str(table[p][column]) for p in differing]])
    lines = [f"  {line}" for line in aligned(rows)]
    for letter, plugin in zip(rows[0][2:], differing, strict=True):
        weight = f", weight {weights[plugin]}" if weights[plugin] != 1 else ""
        lines.append(f"    {letter}  {plugin}{weight}")
    if alike:
        same = ", ".join(f"{p} {table[p][0]}" for p in alike)
        lines += _wrapped(f"the same on these nodes: {same}", "    ")
    return lines


def _preemption(preemption: Preemption) -> list[str]:
    if not preemption.eligible:
        return _wrapped(f"not eligible: {preemption.reason}", "  ")
    lines = []
    if not preemption.candidates:
        lines += _wrapped(preemption.reason, "  ")
    for place, candidate in enumerate(preemption.candidates):
        victims = ", ".join(_name(pod) for pod in candidate.victims)
        more = f" and {candidate.more_victims} more" if candidate.more_victims else ""
        would = "would evict" if not place else "or"
        lines += _wrapped(f"{would} on {candidate.node}: {victims}{more}", "  ")
        if candidate.pdb_violations:
            budgets = ", ".join(candidate.budgets)
            violated = counted(candidate.pdb_violations, "victim")
            lines += _wrapped(f"violates the budgets of {violated}: {budgets}", "    ")
    if preemption.candidate_nodes > len(preemption.candidates):
        lines.append(f"  {preemption.candidate_nodes:,} nodes are candidates")
    if preemption.untried_nodes:
        lines.append(f"  {counted(preemption.untried_nodes, 'more node')} not tried")
    for reason in preemption.rejected:
        lines += _wrapped(f"{counted(reason.nodes, 'node')}: {reason.reason}", "  ")
    return lines


def _changes(changes: Sequence[Change]) -> list[str]:
    lines = []
    for change in changes:
        doubt = ", perhaps less" if change.smaller_possible else ""
        # Changes for a pod group have no number of feasible nodes.
        nodes = f": {counted(change.nodes, 'node')}" if change.nodes else ""
        lines += _wrapped(f"{change.description}{doubt}{nodes}", "  ")
    return lines


def _eta(answer: Explanation) -> list[str]:
    """Return the estimate as a sentence: the median, and the interval of four in five pods."""
    low, median, high = (quantile.seconds for quantile in answer.eta.quantiles)
    if median >= FOREVER:
        text = f"in {age(low)} at the earliest; most pods like it got no node so far"
    else:
        end = f"{age(low)} to {age(high)}" if high < FOREVER else f"{age(low)} or later, or never"
        text = f"in about {age(median)}; four of five pods like it: {end}"
    lines = _wrapped(text, "  ")
    for basis in answer.eta.basis:
        lines += _wrapped(basis, "  ")
    return lines


# ---------------------------------------------------------------------- text


def _name(pod: PodReference) -> str:
    return f"{pod.namespace}/{pod.name}"


def _row(label: str, text: str) -> list[str]:
    first, *others = _fill(text, _LABEL + 2) or [""]
    return [f"  {label:<{_LABEL}}{first}", *(f"  {'':<{_LABEL}}{line}" for line in others)]


def _wrapped(text: str, indent: str) -> list[str]:
    lines = _fill(text, len(indent) + 2)
    return [f"{indent}{line}" if not at else f"{indent}  {line}" for at, line in enumerate(lines)]


def _fill(text: str, indent: int) -> list[str]:
    width = max((terminal_width() or _WIDTH) - indent, 30)
    return textwrap.wrap(text, width, break_on_hyphens=False)
