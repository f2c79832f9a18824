"""The ``sched`` command in the tests' own process: quick, and as users see it."""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from podsched.cli import client
from podsched.cli.main import main
from podsched.serve.client.channels import ClientOptions
from support.eventually import PATIENCE, eventually_blocking


@dataclass(frozen=True, slots=True)
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines on standard error."""
        return self.err.splitlines()


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs commands, with ``--server`` if there is one.

    Its answers are waited for as long as a busy machine takes.
    """

    server: str = ""

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        """Runs a command to its end; never raises, as the console command does not."""
        server = ["--server", self.server] if self.server else []
        # What follows "--" is not the command's.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        words = [*arguments[:end], *server, *arguments[end:]]
        out, err, typed = io.StringIO(), io.StringIO(), stdin.encode(errors="surrogateescape")
        with (
            _patience() if self.server else nullcontext(),
            redirect_stdout(out),
            redirect_stderr(err),
            patch.object(sys, "argv", ["sched", *words]),
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), "utf-8")),
        ):
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
        return Done(code, out.getvalue(), err.getvalue())

    def ok(self, *arguments: str, stdin: str = "") -> str:
        """What a command that has to succeed says."""
        done = self(*arguments, stdin=stdin)
        assert done.code == 0, f"sched {' '.join(arguments)}: {done.err}"
        return done.out

    def until(self, wanted: str, *arguments: str, within: float = PATIENCE) -> str:
        """Repeats a command until ``wanted`` is in what it says."""
        said = ""

        def says_it() -> bool:
            nonlocal said
            said = self.ok(*arguments)
            return wanted in said

        try:
            eventually_blocking(f"{wanted!r} in the output", says_it, within=within, pause=0.1)
        except AssertionError as error:
            error.add_note(said)
            raise
        return said


def _patience() -> Any:
    """Lengthen the timeout of calls, unless a test has chosen another than the default."""
    options, default = client.client_options, ClientOptions().timeout

    def patient(*given: ClientOptions) -> ClientOptions:
        found = options(*given)
        return replace(found, timeout=PATIENCE) if found.timeout == default else found

    return patch.object(client, "client_options", patient)
