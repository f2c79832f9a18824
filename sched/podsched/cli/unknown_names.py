"""Error texts for unknown names: similar names, or a command of kubectl to use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from podsched.lib.run_directory import files_of_running

#: kubectl's commands that only need the objects of the API server.
_ON_OBJECTS: Final = frozenset({
    "api-resources", "api-versions", "cluster-info", "diff", "edit", "explain",
    "expose", "kustomize", "patch", "proxy", "replace", "rollout", "scale", "set", "version",
})  # fmt: skip
#: kubectl's commands that need a running container.
_ON_CONTAINERS: Final = frozenset({"attach", "cp", "debug", "exec", "logs", "port-forward"})


def no_such_command(name: str, known: Iterable[str]) -> str:
    """Return the error text for a command that does not exist."""
    if name in _ON_CONTAINERS:
        return (
            f"No such command '{name}': podsched schedules pods and runs no containers; in a "
            f"Kubernetes cluster that it schedules: kubectl {name}"
        )
    if name in _ON_OBJECTS:
        return f"No such command '{name}', but kubectl has it: {_with_kubectl(name)}"
    return f"No such command '{name}'{suggestion(name, known)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ": did you mean A or B?" with the known names that are like a name, "" without any."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f": did you mean {' or '.join(near)}?" if near else ""


def _with_kubectl(command: str) -> str:
    """Return a command line of kubectl, with the kubeconfig of a running ``sched up`` if any."""
    found = files_of_running("up", "kubeconfig")
    return f"KUBECONFIG={found[0] if found else 'FILE'} kubectl {command}" + (
        "" if found else " (sched up says which FILE)"
    )
