"""Notice that a part of a Ray head has ended while the head starts.

The head itself does not tell: it waits for 30 s for its raylet, 40 to 60 s for the GCS, and 15 s
after one of the agents has ended (measured with 2.60).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.lib.processes import SessionProcess

#: The programs without which a head does not start. The agents are Python scripts; each replaces
#: its command by a title after some seconds.
_PROGRAMS = frozenset({"gcs_server", "raylet"})
_AGENTS: Mapping[str, tuple[str, str]] = {
    "the dashboard agent": ("/ray/dashboard/agent.py", "ray::DashboardAgent"),
    "the runtime environment agent": ("/runtime_env/agent/main.py", "ray::RuntimeEnvAgent"),
}


class RayParts:
    """The parts of one start, by the processes of the head's session."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._missed: set[str] = set()

    def ended(self, processes: Iterable[SessionProcess]) -> list[str]:
        """Return the parts that have ended: those that ran and are missed for the second time.

        The second time, because a process that changes its title has no command for a moment.
        """
        running: set[str] = set()
        for process in processes:
            part = _part(process)
            if part is not None:
                self._seen.add(part)
                if not process.has_ended:
                    running.add(part)
        before, self._missed = self._missed, self._seen - running
        return sorted(before & self._missed)


def _part(process: SessionProcess) -> str | None:
    # First by the name: the commands of the agents are among the raylet's arguments.
    if process.name in _PROGRAMS:
        return process.name
    for part, commands in _AGENTS.items():
        if any(command in process.command for command in commands):
            return part
    return None
