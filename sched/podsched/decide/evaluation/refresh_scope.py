"""What one refresh of an evaluation has to look at."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from typing import Final, NamedTuple

from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.framework.verdicts import Rows

#: By plugin, the pod's projection and the plugin's inputs: what a column may be shared by.
Sharing = Mapping[str, tuple[Hashable, Hashable]]


class RefreshScope(NamedTuple):
    """Rows that changed, and plugins that have to be asked about all rows.

    ``changed`` is None when nothing is known yet, so that all rows count as changed; ``candidates``
    are those of them that may be feasible. ``stale`` names plugins whose inputs changed.
    ``same_nodes``: only pods came and went, so that plugins that read nothing but the Node have
    nothing to add.
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

    came: Rows
    gone: Rows

    def __bool__(self) -> bool:
        return bool(len(self.came) or len(self.gone))


NO_CHANGE: Final = FeasibleChange(NO_ROWS, NO_ROWS)
