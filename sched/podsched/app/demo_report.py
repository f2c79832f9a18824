"""The demo's report, for people."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from podsched.app.demo import DemoReport


def print_report(report: DemoReport) -> None:
    """Print the tables and the verdict to standard output."""
    console = Console(highlight=False)
    console.print()
    console.print("[bold]Where the pods went[/bold] (pods per zone; gpu: the tainted nodes)")
    zones = sorted({zone for _, zone in report.placed}, key=lambda z: (z == "gpu", z))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("workload")
    for zone in zones:
        table.add_column(zone, justify="right")
    table.add_column("each")
    for workload, description in report.workloads.items():
        counts = (str(report.placed.get((workload, zone), 0)) for zone in zones)
        table.add_row(workload, *counts, description)
    console.print(table)
    console.print()
    console.print("[bold]Who led[/bold]")
    for leader in report.leaders:
        since = datetime.fromtimestamp(leader.since, UTC).strftime("%H:%M:%S.%f")[:-3]
        console.print(f"  {leader.identity}  term {leader.term}  since {since}")
    for kill in report.kills:
        console.print(
            f"  {kill.identity} got {kill.signal}; "
            f"the next pod was bound {kill.gap_seconds:.2f} s later"
        )
    console.print()
    if report.ray_calls:
        console.print(f"Ray actors were called {report.ray_calls} times by the leader at the end")
        console.print()
    console.print("[bold]Checked against etcd[/bold]")
    console.print(f"  {report.bound} of {report.pods} pods bound, on {report.nodes} nodes")
    console.print(f"  {report.lost} lost, {report.bound_twice} bound twice")
    console.print(f"  {report.overcommitted_nodes} nodes beyond their capacity")
    console.print(f"  {report.seconds:.1f} s in all")
