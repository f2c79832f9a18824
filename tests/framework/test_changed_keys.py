"""The journal of changed keys."""

from __future__ import annotations

from podsched.framework.changed_keys import ChangedKeys


def test_a_reader_gets_each_key_once_that_changed_after_its_position() -> None:
    changed: ChangedKeys[str] = ChangedKeys()
    changed.add("before")
    position = changed.position
    for key in ("b", "a", "b"):
        changed.add(key)
    assert list(changed.since(position) or ()) == ["b", "a"]
    assert not changed.since(changed.position)


def test_a_position_whose_changes_were_dropped_is_too_old() -> None:
    changed: ChangedKeys[int] = ChangedKeys()
    for key in range(changed.most + 1):
        changed.add(key)
    assert changed.since(0) is None
    assert list(changed.since(changed.most) or ()) == [changed.most]
    assert changed.position == changed.most + 1
