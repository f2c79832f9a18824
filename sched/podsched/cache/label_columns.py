"""The labels of nodes as columns of small integers.

Values are interned, so that a plugin matches each distinct value once and all rows by one NumPy
step. A label's column is built on first use from the labels kept for each row, because nodes have
dozens of labels and plugins read a few.

Labels and values that no node has take no memory, however many pods ask for them. Otherwise pods
with made-up labels would make the leader grow without limit. Values that no node has any more, such
as names of hosts, are forgotten with all ids once they are the majority.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from podsched.cache.column import Column
from podsched.framework.nodes import ABSENT, UNKNOWN

#: Values are not forgotten before there are this many.
_SPARE = 1024


class LabelColumns:
    """The labels of all rows, as columns where plugins read them."""

    def __init__(self, size: int) -> None:
        #: Each row's labels. The rows may share one empty dictionary, because ``put`` replaces a
        #: row's dictionary and never changes it.
        self.rows: list[dict[str, str]] = [{}] * size
        #: The columns in use, by label.
        self.columns: dict[str, Column[np.int32]] = {}
        #: By label, how many nodes have it.
        self._labelled: Counter[str] = Counter()
        #: The column of every label that no node has.
        self._absent = Column(np.int32, size, fill=ABSENT)
        self._value_ids: dict[str, int] = {}
        #: The values by id.
        self.values: list[str] = []

    def copy(self) -> LabelColumns:
        """Return an independent copy."""
        made = LabelColumns(0)
        made.rows = list(self.rows)
        made.columns = {key: column.copy() for key, column in self.columns.items()}
        made._labelled, made._absent = self._labelled.copy(), self._absent.copy()
        made._value_ids, made.values = dict(self._value_ids), list(self.values)
        return made

    def grow(self, size: int) -> None:
        """Make room for ``size`` rows."""
        self.rows.extend([{}] * (size - len(self.rows)))
        for column in (*self.columns.values(), self._absent):
            column.grow(size)

    def put(self, row: int, labels: dict[str, str]) -> None:
        """Replace a row's labels; drop the columns of labels that no node has any more."""
        before, self.rows[row] = self.rows[row], labels
        for key in labels.keys() - before.keys():
            self._labelled[key] += 1
        for key in before.keys() - labels.keys():
            self._labelled[key] -= 1
            if not self._labelled[key]:
                del self._labelled[key]
                self.columns.pop(key, None)
        # Only columns in use: values of other labels are interned when a plugin reads them.
        for key, column in self.columns.items():
            column.array[row] = self._intern(labels[key]) if key in labels else ABSENT
        if len(self.values) > 2 * sum(self._labelled[key] for key in self.columns) + _SPARE:
            self.columns.clear()
            self.values.clear()
            self._value_ids.clear()

    def column(self, key: str) -> Column[np.int32]:
        """Return the value ids of a label; built on first use."""
        if key not in self._labelled:
            return self._absent
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = Column(np.int32, len(self.rows), fill=ABSENT)
            for row, labels in enumerate(self.rows):
                if key in labels:
                    column.array[row] = self._intern(labels[key])
        return column

    def value_id(self, value: str) -> int:
        """Return the id of a value; UNKNOWN if it has none."""
        return self._value_ids.get(value, UNKNOWN)

    def _intern(self, value: str) -> int:
        found = self._value_ids.get(value)
        if found is None:
            found = self._value_ids[value] = len(self.values)
            self.values.append(value)
        return found

    def value(self, value_id: int) -> str:
        """Return the value of an id; "" for ABSENT."""
        return self.values[value_id] if value_id >= 0 else ""
