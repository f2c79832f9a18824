"""Optional protocols by which plugins make decisions faster without changing them.

Look-ahead: a Filter plugin says when one more placed pod changes its verdicts. Until then, a batch
of equal pods is placed without filtering the nodes again after each pod.

Joint choice: Filter, Score and the choice of the best row in one loop, for pods for which all other
plugins of the profile return the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from podsched.framework.nodes import Bools, ClusterView, JournaledColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores


class Lookahead(Protocol):
    """Determines whether a plugin's verdicts change while pods of one class are placed one by one.

    ``covers_own_row``: ``place`` also covers the row that the pod is placed on. Otherwise the
    plugin filters that row on a fork with the placed pods added.
    """

    covers_own_row: bool

    def place(self, row: int) -> bool:
        """Count one more pod on the row; return whether all verdicts that it covers stay the same.

        After it has returned False it is not called again.
        """


@runtime_checkable
class LookaheadPlugin(Protocol):
    """A Filter plugin whose inputs change with every placed pod, but whose verdicts rarely do."""

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead that starts from the present state of the cluster.

        None if verdicts cannot be predicted, or if the plugin's scores change as well.
        """


@runtime_checkable
class LooksPastReserve(LookaheadPlugin, Protocol):
    """A Reserve plugin whose Lookahead counts what Reserve takes for each placed pod.

    So several pods are placed before Reserve is called for them, in their order.
    """

    def independent(self, pods: Sequence[PodInfo]) -> int:
        """Return how many of the first pods, which share a projection, reserve different things."""


class JointBest(NamedTuple):
    """The best row and its total, and how many rows are feasible."""

    row: int
    total: int
    feasible: int


class JointChoice(Protocol):
    """Some plugins of a profile that filter, score and choose the best row together."""

    def base(self, size: int, fits: Bools | None, total: Scores | None) -> Any:
        """Return the other plugins' results for ``size`` rows in the form that ``best`` takes.

        ``fits`` is None if they reject no row, ``total`` is None if they score all rows the same.
        """

    def best(self, cls: PodClass, nodes: JournaledColumns, base: Any) -> JointBest | None:
        """Return the best row for a class; None if the plugins have to be called."""

    def feasible(self) -> Rows:
        """Return the rows that were feasible for the last class."""


@runtime_checkable
class JointChoicePlugin(Protocol):
    """A plugin that can choose together with others."""

    def joint_choice(
        self, filters: Mapping[str, object], scores: Mapping[str, tuple[object, int]]
    ) -> JointChoice | None:
        """Return a joint choice for the given filters and weighted scores.

        None if it does not support exactly these plugins.
        """
