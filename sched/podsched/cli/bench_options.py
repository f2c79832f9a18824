"""The options of ``sched bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.enums import Accelerator, BenchBackend, CreateMode, Fault
from podsched.config.settings import Evaluator

Nodes = Annotated[
    int, typer.Option(min=0, metavar="N", help="Number of nodes; 0: as in the workload.")
]
Pods = Annotated[
    int, typer.Option(min=0, metavar="N", help="Number of measured pods; 0: as in the workload.")
]
First = Annotated[
    int, typer.Option(metavar="N", min=-1, help="Number of initial pods; -1: as in the workload.")
]
Backends = Annotated[
    list[BenchBackend] | None,
    typer.Option(
        "--backend",
        help="podsched: gRPC; kubernetes: scheduler and client speak Kubernetes' REST API. May be "
        "repeated, to compare. [podsched]",
    ),
]
Mode = Annotated[
    CreateMode | None,
    typer.Option(
        help="batch: many pods per call; single: one call per pod; "
        "stream: one message per pod on one stream. [batch, but single with kubernetes]"
    ),
]
BatchSize = Annotated[
    int, typer.Option(min=1, max=5000, metavar="N", help="Pods per call in batch mode.")
]
InFlight = Annotated[int, typer.Option(min=1, metavar="N", help="Concurrent calls in single mode.")]
Rate = Annotated[
    float, typer.Option(min=0, metavar="N", help="Create N pods/s, one call each; 0: no limit.")
]
Replicas = Annotated[int, typer.Option(min=1, metavar="N", help="Number of scheduler replicas.")]
Evaluators = Annotated[
    Evaluator, typer.Option(help="Where nodes are evaluated; local does not start Ray.")
]
Without = Annotated[
    list[Accelerator] | None,
    typer.Option(
        metavar="NAME",
        help="Leave out an accelerator of decisions, to see what it earns: "
        f"{', '.join(Accelerator)}. May be repeated.",
    ),
]
Repeat = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Runs per workload; the median and the spread are reported."
    ),
]
MaxNodes = Annotated[int, typer.Option(min=1, metavar="N", help="Most nodes of scale.")]
MaxBound = Annotated[int, typer.Option(min=0, metavar="N", help="Most bound pods of scale.")]
Seconds = Annotated[
    float,
    typer.Option(min=0, metavar="N", help="Begin no further size of scale after; 0: no limit."),
]
Times = Annotated[int, typer.Option(min=1, metavar="N", help="Rounds of Failover per fault.")]
Bound = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Pods that are bound before Failover or Restart begins."),
]
ApiServers = Annotated[int, typer.Option(min=1, metavar="N", help="Number of API servers.")]
Faults = Annotated[
    list[Fault] | None,
    typer.Option(
        "--fault", help="What Failover does to the leader; may be repeated. [SIGKILL, SIGTERM]"
    ),
]
MostGrowth = Annotated[
    float,
    typer.Option(min=0.0, metavar="BYTES", help="Growth per pod beyond which Soak fails."),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a chart (SVG): throughput over time, Soak's memory, or scale's cost per pod.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print results as JSON, one line per workload.")
]
