"""Whether a process lives and is ready: named checks, answered in Kubernetes' format.

A check is a function that looks at state the process keeps anyway (a time of the last renewal, an
``is_set``): it returns "" when all is well, or the reason when not. It is called on the event loop
for each probe, so it must not block or wait. Unlike Kubernetes, which answers ``reason withheld``,
the answer gives the reason, for the server listens on loopback unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum

Check = Callable[[], str]


class Probe(StrEnum):
    """The questions that can be asked, and their paths."""

    HEALTHZ = "healthz"
    LIVEZ = "livez"
    READYZ = "readyz"


ALL_PROBES = frozenset(Probe)


@dataclass(frozen=True, slots=True)
class Answer:
    """``ok`` decides between 200 and 500; ``text`` is the body."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Named:
    check: Check
    probes: frozenset[Probe]


@dataclass(slots=True)
class HealthChecks:
    """The checks of one process, in the order they were added; "ping" is always there."""

    _checks: dict[str, _Named] = field(
        default_factory=lambda: {"ping": _Named(lambda: "", ALL_PROBES)}
    )

    def add(self, name: str, check: Check, probes: Collection[Probe] = ALL_PROBES) -> None:
        """Add a check to the given probes; ValueError when the name is taken.

        What a restart would mend belongs to LIVEZ; what only keeps work away, to READYZ.
        """
        if name in self._checks:
            raise ValueError(f"health check {name} exists already")
        self._checks[name] = _Named(check, frozenset(probes))

    def names(self, probe: Probe) -> list[str]:
        return [name for name, named in self._checks.items() if probe in named.probes]

    def answer(
        self, probe: Probe, *, verbose: bool = False, exclude: Collection[str] = ()
    ) -> Answer:
        """Run the probe's checks except the excluded; a failure is always answered verbosely."""
        lines, ok = [], True
        names = self.names(probe)
        for name in names:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = self._run(name)
            ok = ok and not reason
            lines.append(f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok")
        if unknown := sorted(set(exclude) - set(names)):
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        lines.append(f"{probe} check {'passed' if ok else 'failed'}")
        if ok and not verbose:
            return Answer(True, "ok")
        return Answer(ok, "\n".join(lines) + "\n")

    def answer_one(self, probe: Probe, name: str) -> Answer | None:
        """Run one check; None when the probe has no check of that name."""
        if name not in self.names(probe):
            return None
        reason = self._run(name)
        return Answer(not reason, f"internal server error: {reason}\n" if reason else "ok")

    def _run(self, name: str) -> str:
        try:
            reason = self._checks[name].check()
        except Exception as error:
            # Whatever a check runs into is an answer to the question it was asked.
            reason = f"{type(error).__name__}: {error}"
        return " ".join(reason.split())
