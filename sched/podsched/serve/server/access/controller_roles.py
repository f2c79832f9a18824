"""The roles of kube-controller-manager's controllers, for ``--use-service-account-credentials``.

Each controller then has the ServiceAccount of its name in ``kube-system``. The roles are in
``controller_roles.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

MANAGER: Final = "system:kube-controller-manager"
_PREFIX: Final = "system:controller:"
#: What each of them may do beside the rules in the file, except those that report nothing.
_EVENTS: Final = (("create", "patch", "update"), ("",), ("events",))
_SILENT: Final = (
    "clusterrole-aggregation-controller",
    "legacy-service-account-token-cleaner",
    "namespace-controller",
    "pod-garbage-collector",
)
#: Verbs, API groups, resources.
Rule = tuple[Sequence[str], Sequence[str], Sequence[str]]


def controller_roles() -> Iterator[tuple[str, str, tuple[Rule, ...]]]:
    """Yield each ClusterRole, its ServiceAccount ("" for the manager's own), and its rules."""
    rules: dict[str, list[Rule]] = {}
    text = files(__package__).joinpath("controller_roles.txt").read_text("utf-8")
    for line in text.partition("\n\n")[2].splitlines():
        if not line.startswith(" "):
            own = rules[line] = [] if line in _SILENT else [_EVENTS]
            continue
        verbs, group, resources = line.split("|")
        groups = ("",) if group.strip() == "core" else (group.strip(),)
        own.append((tuple(verbs.split()), groups, tuple(resources.split())))
    for name, found in rules.items():
        is_manager = name == MANAGER
        yield name if is_manager else _PREFIX + name, "" if is_manager else name, tuple(found)
