"""Why the units of queues wait, as it is reported."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from podsched.queues.assignment import Waiting
from podsched.term.cycle.unit_reports import quota_message


class Unlisted(dict[str, Any]):
    """Queues that can only be read one by one."""

    def items(self) -> Any:
        raise AssertionError


def test_pods_that_leave_are_counted_without_reading_all_queues() -> None:
    """Each of a thousand queues may have a head that waits, in every cycle."""
    names = {"a": "one tree", "b": "one tree", "c": "another tree"}
    queues = Unlisted({name: SimpleNamespace(root=tree) for name, tree in names.items()})
    admission: Any = SimpleNamespace(
        pods=SimpleNamespace(leaving=Counter(a=0, b=2, c=5)),
        snapshot=SimpleNamespace(
            forest=SimpleNamespace(queues=queues), node=lambda name: queues[name]
        ),
    )
    entry: Any = SimpleNamespace(
        waiting=Waiting.QUOTA, message="8 more needed", queue=SimpleNamespace(name="a")
    )
    assert quota_message(admission, entry) == (
        "8 more needed; 2 terminating pod(s) still use quota"
    )
