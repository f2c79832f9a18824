"""The journal of changed rows."""

from __future__ import annotations

from podsched.cache.journal import Journal


def test_a_journal_to_which_rows_are_only_added_at_once_is_bounded() -> None:
    journal = Journal()
    for _ in range(journal.most // 2 + 1):
        journal.extend([3, 1])
    position = journal.position
    assert len(journal.keys) <= journal.most and journal.changed_since(0) is None
    journal.extend([2])
    changed = journal.changed_since(position - 1)
    assert changed is not None and changed.tolist() == [1, 2]
