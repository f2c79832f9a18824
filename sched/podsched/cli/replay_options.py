"""The options of ``sched replay``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Trace(StrEnum):
    """Formats of public traces."""

    GOOGLE_2011 = "google2011"
    AZURE = "azure"
    ALIBABA_2018 = "alibaba2018"


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="What sched record has written; with --trace, a directory."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="KubeSchedulerConfiguration to try."),
]
Nodes = Annotated[
    str,
    typer.Option(
        "--nodes", metavar="+N|-N", help="So many nodes more, like those there are, or fewer."
    ),
]
TraceFormat = Annotated[
    Trace | None,
    typer.Option("--trace", help="Read a public trace of this format, its CSV tables."),
]
For = Annotated[
    str, typer.Option("--for", metavar="TIME", help="Read the first so much of a trace, as in 6h.")
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Write a chart of the runs over time (SVG)."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print everything as JSON, every pod that differs.")
]
Verify = Annotated[
    bool,
    typer.Option("--verify", help="Make each recorded decision again, and compare it bit by bit."),
]

Eta = Annotated[
    bool,
    typer.Option("--eta", help="Tell how well estimates of waiting times hold in the last run."),
]
