"""Look-ahead: a Filter plugin's verdicts while pods of one class are placed one after another.

With this contract a batch of equal pods is placed without filtering the nodes again after each.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo


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
