"""The results of the demo, computed from etcd's content, and their printed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from podsched.api.node_labels import ZONE
from podsched.api.objects import Pod
from podsched.app.demo_observer import Leader, Observer
from podsched.app.stored_state import StoredState

#: Seconds. Pauses are longer only if the load of two processors exceeds 6 (docs/failover.md).
_USUAL_GAP = 0.4


@dataclass(frozen=True, slots=True)
class Kill:
    """A leader that was killed, and the seconds from the signal until the next pod was bound."""

    signal: str
    identity: str
    gap_seconds: float


@dataclass(slots=True)
class DemoReport:
    """The results of a demo."""

    nodes: int = 0
    pods: int = 0
    bound: int = 0
    lost: int = 0
    bound_twice: int = 0
    overcommitted_nodes: int = 0
    seconds: float = 0.0
    load: float = 0.0
    """The machine's load average over one minute when the demo began."""
    processors: int = 1
    leaders: list[Leader] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    ray_calls: int = 0
    """Calls of Ray actors by the replicas that were alive at the end."""
    placed: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of pods by workload and zone; "gpu" stands for the tainted nodes."""
    workloads: dict[str, str] = field(default_factory=dict)
    """A description of each workload's pods."""

    @property
    def good(self) -> bool:
        """Whether every pod was bound once and no node is overcommitted."""
        return self.bound == self.pods and not (
            self.lost or self.bound_twice or self.overcommitted_nodes
        )

    def why_slow(self) -> str:
        """Return why a pause was longer than usual; "" if it was not, or if the machine is idle."""
        longest = max((kill.gap_seconds for kill in self.kills), default=0.0)
        if longest <= _USUAL_GAP or self.load <= self.processors:
            return ""
        return (
            f"(a busy machine: load {self.load:.1f} on {self.processors} processors; "
            f"else at most {_USUAL_GAP} s)"
        )

    def check(self, keys: Sequence[str], state: StoredState, observer: Observer) -> None:
        """Fill in the results for the pods ``keys`` from etcd's content and the observations."""
        found = {key: state.pods[key] for key in keys if key in state.pods}
        self.nodes = len(state.nodes)
        self.pods = len(keys)
        self.lost = len(keys) - len(found)
        self.bound = sum(bool(pod.spec.node_name) for pod in found.values())
        self.bound_twice = sum(len(nodes) > 1 for nodes in observer.nodes_of.values())
        self.overcommitted_nodes = len(state.overcommitted_nodes())
        self.leaders = observer.leaders
        self.placed = dict(
            Counter(
                (pod.metadata.owner_references[0].name, _zone(pod, state)) for pod in found.values()
            )
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report for ``--json``."""
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "bound": self.bound,
            "lost": self.lost,
            "bound_twice": self.bound_twice,
            "overcommitted_nodes": self.overcommitted_nodes,
            "seconds": round(self.seconds, 2),
            "leaders": [asdict(one) | {"since": round(one.since, 3)} for one in self.leaders],
            "kills": [asdict(k) | {"gap_seconds": round(k.gap_seconds, 3)} for k in self.kills],
        }


def _zone(pod: Pod, state: StoredState) -> str:
    node = state.nodes.get(pod.spec.node_name)
    if node is None:
        return "?"
    if node.spec.taints:
        return "gpu"
    return node.metadata.labels.get(ZONE, "?")


def print_report(report: DemoReport) -> None:
    """Print the report to standard output."""
    console = Console(highlight=False)
    console.print()
    console.print("[bold]Placement[/bold] (pods per zone; gpu: the tainted nodes)")
    console.print(_placement(report))
    console.print()
    console.print("[bold]Leaders[/bold]")
    for leader in report.leaders:
        since = datetime.fromtimestamp(leader.since, UTC).strftime("%H:%M:%S.%f")[:-3]
        console.print(f"  {leader.identity}, term {leader.term}, since {since} UTC")
    for kill in report.kills:
        console.print(
            f"  {kill.identity} killed with {kill.signal}; "
            f"next pod bound after {kill.gap_seconds:.2f} s"
        )
    if report.kills and (why := report.why_slow()):
        console.print(f"  {why}")
    console.print()
    if report.ray_calls:
        console.print(f"The last leader called Ray actors {report.ray_calls} times")
        console.print()
    console.print("[bold]Checked against etcd[/bold]")
    console.print(f"  {report.bound} of {report.pods} pods bound, on {report.nodes} hollow nodes")
    console.print(f"  {report.lost} pods lost, {report.bound_twice} bound twice")
    console.print(f"  {report.overcommitted_nodes} nodes overcommitted")
    console.print(f"  {report.seconds:.1f} s in total")


def _placement(report: DemoReport) -> Table:
    zones = sorted({zone for _, zone in report.placed}, key=lambda z: (z == "gpu", z))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("workload")
    for zone in zones:
        table.add_column(zone, justify="right")
    table.add_column("pods")
    for workload, description in report.workloads.items():
        counts = (str(report.placed.get((workload, zone), 0)) for zone in zones)
        table.add_row(workload, *counts, description)
    return table
