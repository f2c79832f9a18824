"""The rows and plugins that one refresh of an evaluation has to cover."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from typing import Final, NamedTuple

from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.framework.verdicts import Rows

#: By plugin, the pod's projection and the plugin's inputs. Classes with equal ones share columns.
Sharing = Mapping[str, tuple[Hashable, Hashable]]


class RefreshScope(NamedTuple):
    """Rows that changed, and plugins that have to be asked about all rows.

    ``changed`` is None if nothing is known yet; then all rows count as changed. ``candidates`` are
    the changed rows that may be feasible. ``stale`` has the plugins whose inputs changed.
    ``same_nodes``: only pods came and went, so plugins that read only Nodes need not run.
    """

    changed: Rows | None
    candidates: Rows
    stale: Set[str]
    same_nodes: bool

    @property
    def everything(self) -> bool:
        """Whether all rows count as changed."""
        return self.changed is None


class FeasibleChange(NamedTuple):
    """Rows that became feasible, and rows that ceased to be; ascending."""

    added: Rows
    removed: Rows

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))


NO_CHANGE: Final = FeasibleChange(NO_ROWS, NO_ROWS)
