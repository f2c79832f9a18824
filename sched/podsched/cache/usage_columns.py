"""The names of the usage columns, and what a pod adds to each."""

from __future__ import annotations

from typing import Final

from podsched.framework.pods import PodClass

#: The columns of resources have the resources' names; the others, names that no resource can have.
POD_COUNT: Final = "#pods"
NONZERO: Final = {"cpu": "#nonzero cpu", "memory": "#nonzero memory"}
FIRST_COLUMNS: Final = (POD_COUNT, *NONZERO.values(), "cpu", "memory", "ephemeral-storage")


def usage_of(cls: PodClass) -> dict[str, int]:
    """Return what one pod of the class adds to each usage column, by the column's name."""
    return {
        POD_COUNT: 1,
        NONZERO["cpu"]: cls.nonzero[0],
        NONZERO["memory"]: cls.nonzero[1],
        **cls.requests,
    }
