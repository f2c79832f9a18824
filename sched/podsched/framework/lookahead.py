"""Optional protocols of plugins that make decisions faster without changing them.

Look-ahead: predicts a Filter plugin's verdicts while pods of one class are placed one after
another. So a batch of equal pods is placed without filtering the nodes again after each pod.

Joint choice: does Filter, Score and the choice of the best row in one loop, for pods that all other
plugins of the profile do not tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from podsched.framework.nodes import Bools, ClusterView, JournaledColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores


class Lookahead(Protocol):
    """Follows one plugin's verdicts while pods of one class are placed one after another.

    ``covers_own_row``: ``place`` also answers for the row that the pod is placed on; otherwise the
    plugin filters that row on a fork with the placed pods added.
    """

    covers_own_row: bool

    def place(self, row: int) -> bool:
        """Count one more pod on the row; return whether all verdicts it answers for stay.

        After False it is not used any more.
        """
        ...


@runtime_checkable
class LookaheadPlugin(Protocol):
    """Filter plugins whose inputs change with every pod of the class, but rarely a verdict."""

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead that starts from the cluster as it is now.

        None where they cannot be predicted, or where the plugin's scores change as well.
        """
        ...


class JointBest(NamedTuple):
    """The best row and its total, and how many rows are feasible."""

    row: int
    total: int
    feasible: int


class JointChoice(Protocol):
    """Some plugins of a profile together."""

    def base(self, size: int, fits: Bools | None, total: Scores | None) -> Any:
        """Return the other plugins' results for ``size`` rows in the form that ``best`` takes.

        ``fits`` is None if they reject no row, ``total`` is None if they score all rows the same.
        """
        ...

    def best(self, cls: PodClass, nodes: JournaledColumns, base: Any) -> JointBest | None:
        """Return the best row for a class; None if the plugins have to be called."""
        ...

    def feasible(self) -> Rows:
        """Return the rows that were feasible for the last class."""
        ...


@runtime_checkable
class JointChoicePlugin(Protocol):
    """A plugin that can choose together with others."""

    def joint_choice(
        self, filters: Mapping[str, object], scores: Mapping[str, tuple[object, int]]
    ) -> JointChoice | None:
        """Return a joint choice for the given filters and weighted scores.

        None if it does not support exactly these plugins.
        """
        ...
