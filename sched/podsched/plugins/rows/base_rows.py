"""The rows of a fork in the arrays that plugins keep for its base."""

from __future__ import annotations

from podsched.framework.nodes import NodeColumns
from podsched.framework.verdicts import Rows


def rows_of_base(nodes: NodeColumns, rows: Rows) -> Rows:
    """Return the base's rows for rows of a fork; the rows themselves if ``nodes`` is not a fork.

    Arrays over rows that a plugin keeps have cells for the rows of the base.
    """
    return rows if nodes.base is nodes else nodes.base_rows[rows]
