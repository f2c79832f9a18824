"""How many examples property tests try: a seventh of what they name, or all of it.

All with ``--hypothesis-profile=thorough``, as ``make test-long`` has it; ``tests/conftest.py``
registers the profiles.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

#: What ``max_examples`` of a profile is when it tries all examples.
WHOLE = 100
QUICK = 15


def share(number: int) -> int:
    """Return how many of a number of examples the profile in use tries, at least one."""
    return max(1, number * settings.default.max_examples // WHOLE)


def examples(number: int, **options: Any) -> settings:
    """Return Hypothesis's settings for a test that tries so many examples when it tries all."""
    return settings(max_examples=share(number), **options)
