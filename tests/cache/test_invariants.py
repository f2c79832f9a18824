"""The check of the cache's invariants finds what is wrong."""

from __future__ import annotations

import pytest

from podsched.cache.cache import Cache
from podsched.cache.invariants import CacheInconsistentError, check
from support.cache_world import info, make_node


def test_the_check_finds_a_wrong_count() -> None:
    cache = Cache()
    cache.apply("Node", None, make_node("n0"))
    cache.columns.pod_table.add(0, info(cache.classes, "unknown to the cache"))
    with pytest.raises(CacheInconsistentError, match="requested"):
        check(cache)
