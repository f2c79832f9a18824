"""Health checks of a process: named checks, with answers in Kubernetes' format.

A check is a function that inspects state that the process keeps anyway (the time of the last
renewal, an ``is_set``). It returns "" if healthy, otherwise the reason. It is called on the event
loop for each probe, so it must not block or wait. Kubernetes answers ``reason withheld``; this
answers with the reason, because the server listens on loopback by default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum

Check = Callable[[], str]


class Probe(StrEnum):
    """The probes; the values are their paths."""

    HEALTHZ = "healthz"
    LIVEZ = "livez"
    READYZ = "readyz"


ALL_PROBES = frozenset(Probe)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: ``ok`` selects status 200 or 500, ``text`` is the body."""

    ok: bool
    text: str


@dataclass(slots=True)
class HealthChecks:
    """The checks of one process in the order they were added, starting with "ping"."""

    _checks: dict[str, tuple[Check, Collection[Probe]]] = field(
        default_factory=lambda: {"ping": (lambda: "", ALL_PROBES)}
    )
    ran: Callable[[str, str, bool], None] = lambda *_: None
    """Called after each run with the check's name, the probe, and whether the check passed."""

    def add(self, name: str, check: Check, probes: Collection[Probe] = ALL_PROBES) -> None:
        """Add a check to the given probes. Raises ``ValueError`` if the name is taken.

        LIVEZ is for failures that a restart fixes; READYZ is for those during which the process
        should only get no requests.
        """
        if name in self._checks:
            raise ValueError(f"health check {name} exists already")
        self._checks[name] = check, probes

    def names(self, probe: Probe) -> list[str]:
        return [name for name, (_, probes) in self._checks.items() if probe in probes]

    def answer(
        self, probe: Probe, *, verbose: bool = False, exclude: Collection[str] = ()
    ) -> Answer:
        """Run the probe's checks except those excluded; a failure is always answered verbosely."""
        lines, ok = [], True
        names = self.names(probe)
        for name in names:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = self._run(name, probe)
            ok = ok and not reason
            lines.append(f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok")
        if unknown := sorted(set(exclude) - set(names)):
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        lines.append(f"{probe} check {'passed' if ok else 'failed'}")
        if ok and not verbose:
            return Answer(True, "ok")
        return Answer(ok, "\n".join(lines) + "\n")

    def answer_one(self, probe: Probe, name: str) -> Answer | None:
        """Run one check; return None if the probe has no check of that name."""
        if name not in self.names(probe):
            return None
        reason = self._run(name, probe)
        return Answer(not reason, f"internal server error: {reason}\n" if reason else "ok")

    def _run(self, name: str, probe: Probe) -> str:
        try:
            check, _ = self._checks[name]
            reason = check()
        except Exception as error:
            # A check that raises is a check that fails.
            reason = f"{type(error).__name__}: {error}"
        self.ran(name, probe.value, not reason)
        return " ".join(reason.split())
