"""Options of commands that read manifests or choose objects."""

from __future__ import annotations

from typing import Annotated

import typer

_FILENAME = typer.Option(
    "--filename",
    "-f",
    metavar="FILE|DIR|-",
    help="Manifest file, directory of manifests, or - for standard input; repeatable.",
)
Filename = Annotated[list[str], _FILENAME]
OptionalFilename = Annotated[list[str] | None, _FILENAME]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unknown fields instead of warning.")]
Recursive = Annotated[
    bool, typer.Option("--recursive", "-R", help="Read the directories in directories, too.")
]
SkipUnknown = Annotated[
    bool,
    typer.Option("--skip-unknown", help="Warn of kinds that podsched does not have, not fail."),
]
LabelSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="Select objects by labels, such as app=web,tier!=front.",
    ),
]
