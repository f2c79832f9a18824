"""``sched capacity``: how many more pods fit; ``sched headroom``: the largest pod that fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer

from podsched.api.objects import (
    AnyObject,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    key_of,
    object_key,
)
from podsched.api.pod_groups import GROUP_MARKS
from podsched.ask.whatif.capacity import (
    MOST,
    MOST_IN_TURN,
    Capacity,
    Group,
    by_group,
    by_zone,
    grouping,
)
from podsched.ask.whatif.capacity import capacity as capacity_for
from podsched.ask.whatif.headroom import Headroom
from podsched.ask.whatif.headroom import headroom as headroom_of
from podsched.cli.cluster_source import QuestionFlags, admit, after_applying
from podsched.cli.config import read_config
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.flags import takes_flags
from podsched.cli.node_usage import humanised
from podsched.cli.output import say, show_answer
from podsched.cli.printers import aligned, first_rows, wrapped
from podsched.cli.progress import progress_bar
from podsched.cli.what_if import world_of
from podsched.cli.workloads import read_workloads
from podsched.config.flags import flag
from podsched.lib.counted import counted
from podsched.telemetry.log_output import configure_logging

#: Max groups and nodes that are shown; -o json has all.
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class _Flags(QuestionFlags):
    filename: list[str] | None = flag(None, "FILE|DIR|-", names="--filename -f")
    """Manifest of the pod or workload; with --pod, manifests of the cluster, as with --cluster."""
    pod_file: str = flag("", "FILE|-", names="--pod")
    """Manifest of the pod or workload, as in sched simulate."""
    most: int | None = flag(None, "N", names="--max", min=1, max=MOST)
    """Stop counting here; by default at 10,000, but only if the pods have to be placed one after
    another, as with spreading."""
    group_by: str = flag("", "LABEL")
    """Label of nodes to group by, in place of the labels of clouds' node groups."""


@takes_flags
def capacity(given: _Flags) -> None:
    """Show how many more pods like one fit, where, and what limits them.

    The cluster is given by --cluster, --live (the default) or --kubeconfig, or by -f with --pod, as
    in sched simulate. Nothing is reserved for pending pods, nothing is preempted, and nothing is
    changed.

    Ends with 0 if at least one pod fits, with 1 if none does, and with 2 if a plugin
    failed.
    """
    configure_logging("text", "warning")
    files = given.filename or []
    if not given.pod_file and len(files) != 1:
        fail("give the pod with -f FILE, or with --pod FILE if -f has the cluster", USAGE)
    source = given.source(files if given.pod_file else ())
    workload = read_workloads([given.pod_file or files[0]], 1)
    there = source.objects()
    objects = after_applying(there, workload.others)
    pod = workload.pods[0]
    pod.ClearField("status")  # It may name claims of the pod that it was read from.
    _leave_group(pod)
    _make_claims_its_own(pod, workload.others, there)
    name = key_of(pod)
    taken = {key_of(o) for o in objects if isinstance(o, Pod)}
    while key_of(pod) in taken:
        pod.metadata.name += "-more"
    admit(objects, [pod])
    world = world_of(objects, read_config(given.config))
    nodes = [node for node in objects if isinstance(node, Node)]
    with progress_bar("pods", given.most or MOST_IN_TURN) as advance:
        found = capacity_for(world, pod, given.most, placed=advance)
    zones = by_zone(nodes, found.by_node)
    groups = by_group(grouping(nodes, given.group_by), found.by_node)
    document = _document(name, found, zones, groups)
    show_answer(document, _lines(name, found, zones, groups), as_json=given.output == "json")
    if not (found.message or given.most) and found.total == MOST_IN_TURN:
        say(f"Counting stopped at {MOST_IN_TURN:,} pods; --max N counts on.", error=True)
    if found.failed:
        raise typer.Exit(2)
    if not found.total:
        raise typer.Exit(FAILED)


def _leave_group(pod: Pod) -> None:
    """Take a pod out of its pod group: how many more fit is asked of each by itself."""
    pod.spec.ClearField("scheduling_group")
    for mark in GROUP_MARKS:
        pod.metadata.labels.pop(mark, None)
        pod.metadata.annotations.pop(mark, None)


def _make_claims_its_own(pod: Pod, owners: Iterable[AnyObject], there: Iterable[AnyObject]) -> None:
    """Let each copy of a StatefulSet's pod have claims of its own, unless it has them already."""
    sets = (owner for owner in owners if isinstance(owner, StatefulSet))
    kept = {object_key(item) for item in there if isinstance(item, PersistentVolumeClaim)}
    specs = {
        template.metadata.name: template.spec
        for owner in sets
        for template in owner.spec.volume_claim_templates
    }
    for volume in pod.spec.volumes:
        key = f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        if volume.name in specs and key not in kept:
            volume.ClearField("persistent_volume_claim")
            volume.ephemeral.volume_claim_template.spec.CopyFrom(specs[volume.name])


def _document(
    name: str, found: Capacity, zones: Sequence[Group], groups: Sequence[Group]
) -> dict[str, Any]:
    def rows(some: Sequence[Group]) -> list[dict[str, Any]]:
        return [{"name": g.name, "nodes": g.nodes, "pods": g.count} for g in some]

    return {
        "pod": name,
        "fits": found.total,
        "message": found.message,
        "limits": list(map(asdict, found.limits)),
        "zones": rows(zones),
        "groups": rows(groups),
        "nodes": dict(sorted(found.by_node.items())),
    }


def _lines(
    name: str, found: Capacity, zones: Sequence[Group], groups: Sequence[Group]
) -> Iterator[str]:
    nodes = f", on {counted(len(found.by_node), 'node')}" if found.by_node else ""
    if found.message:
        fits = "fits" if found.total == 1 else "fit"
        yield f"{counted(found.total, 'pod')} like {name} {fits}{nodes}."
        yield ""
        yield from wrapped([["Then:", found.message]])
    else:
        yield f"{found.total:,} or more pods like {name} fit{nodes}."
    if found.limits:
        rows = [["NODES", "PLUGIN", "WHY NO FURTHER POD FITS"]]
        rows += [[f"{one.nodes:,}", one.plugin, "; ".join(one.reasons)] for one in found.limits]
        yield ""
        yield from wrapped(rows)
    for heading, some in (("ZONE", zones), ("NODE GROUP", groups)):
        if len(some) > 1:
            yield ""
            rows = [[g.name, f"{g.nodes:,}", f"{g.count:,}"] for g in some]
            yield from first_rows(rows, _SHOWN, [heading, "NODES", "PODS"])
    if 1 < len(found.by_node) <= _SHOWN:
        yield ""
        rows = [[name, f"{count:,}"] for name, count in sorted(found.by_node.items())]
        yield from aligned([["NODE", "PODS"], *rows])


# ---------------------------------------------------------------------- headroom


@takes_flags
def headroom(given: QuestionFlags) -> None:
    """Show the largest pod of each usual shape that still fits, and fragmentation.

    The cluster is given by --cluster, --live (the default) or --kubeconfig. Shapes are 2, 4 and 8
    GiB of memory per cpu, and the most frequent requests of running pods. The pods have no
    tolerations. docs/what-if.md defines the figures.
    """
    configure_logging("text", "warning")
    objects = given.source().objects()
    admit(objects, [])
    found = headroom_of(world_of(objects, read_config(given.config)))
    show_answer(_headroom_document(found), _headroom_lines(found), as_json=given.output == "json")


def _headroom_document(found: Headroom) -> dict[str, Any]:
    return {
        "nodes": found.nodes,
        "allocatable": dict(found.total),
        "free": dict(found.free),
        "largest": [
            {
                "gibPerCpu": ratio,
                "requests": dict(one.requests),
                "node": one.node_name,
                "nodes": one.nodes,
                "strandedCpu": round(one.stranded_cpu, 4),
                "strandedMemory": round(one.stranded_memory, 4),
            }
            for ratio, one in found.ratios.items()
        ],
        "shapes": [
            {
                "requests": dict(one.requests),
                "running": one.pods,
                "more": one.more,
                "nodes": one.nodes,
                "times": round(float(one.times), 3),
            }
            for one in found.shapes
        ],
        "fragmentation": {name: round(share, 4) for name, share in found.fragmentation.items()},
    }


def _headroom_lines(found: Headroom) -> Iterator[str]:
    free = ", ".join(
        f"{humanised(name, amount)} of {humanised(name, found.total[name])} {name}"
        for name, amount in found.free.items()
    )
    yield f"Free on {counted(found.nodes, 'node')} open to any pod: {free}."
    yield ""
    rows = [["GIB PER CPU", "LARGEST POD", "NODE", "STRANDED CPU", "AND MEMORY"]]
    for ratio, one in found.ratios.items():
        node = one.node_name + (f" (of {one.nodes:,})" if one.nodes > 1 else "")
        rows.append(
            [
                str(ratio),
                _requests(one.requests) or "none",
                node or "-",
                _percent(one.stranded_cpu),
                _percent(one.stranded_memory),
            ]
        )
    yield from aligned(rows)
    if not found.shapes:
        return
    yield ""
    rows = [["RUNNING", "REQUESTS", "MORE FIT", "ON NODES", "LARGEST IN PROPORTION"]]
    for shape in found.shapes:
        largest = {name: int(amount * shape.times) for name, amount in shape.requests.items()}
        cells = (f"{shape.pods:,}", _requests(shape.requests), f"{shape.more:,}")
        rows.append([*cells, f"{shape.nodes:,}", _requests(largest) or "-"])
    yield from aligned(rows)
    yield ""
    shares = ", ".join(f"{_percent(share)} of {n}" for n, share in found.fragmentation.items())
    yield f"Fragmentation: {shares}"
    yield "(free on nodes where a running shape does not fit; mean over the shapes)"


def _requests(requests: Mapping[str, int]) -> str:
    return ", ".join(
        f"{humanised(name, amount)}{' cpu' if name == 'cpu' else ''}"
        if name in ("cpu", "memory", "ephemeral-storage")
        else f"{amount} {name}"
        for name, amount in requests.items()
        if amount
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
