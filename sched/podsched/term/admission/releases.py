"""Releases of quota, until the queues in whose trees they were are tried again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from podsched.queues.quota import FlavorResource, Node

#: The quotas of which less is used; None: any.
Freed = set[FlavorResource] | None


class Releases:
    """The queues in which quota was released, and which."""

    def __init__(self) -> None:
        self._freed: dict[str, Freed] = {}

    def add(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Note a release of quota in a queue.

        ``freed``: the quotas of which less is used; None: any.
        """
        known = self._freed.setdefault(queue, set())
        if freed is None:
            self._freed[queue] = None
        elif known is not None:
            known.update(freed)

    def clear(self) -> None:
        """Forget all releases."""
        self._freed.clear()

    def take(self, nodes: Mapping[str, Node]) -> dict[str, Freed]:
        """Remove the releases; return what was freed in its tree for each queue in such a tree.

        ``nodes`` are those of the queues, by their names.
        """
        if not self._freed:
            return {}
        by_root: dict[Node, Freed] = {}
        for name, freed in self._freed.items():
            if name in nodes:
                root = nodes[name].root
                known = by_root.setdefault(root, set())
                by_root[root] = None if freed is None or known is None else known | freed
        self._freed = {}
        return {name: by_root[node.root] for name, node in nodes.items() if node.root in by_root}
