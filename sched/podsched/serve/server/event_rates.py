"""Limits the Events that a source may create about an object, as kube-apiserver's EventRateLimit.

There is a token bucket for each user, source and object, with client-go's burst: Events of a source
that reports in a loop are refused one by one, all others are stored. A repetition of a stored Event
is a patch and needs no token.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from podsched.api.objects import Event
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller

#: Size of a bucket, and seconds in which it gains a token.
BURST, EVERY = 25, 10.0
#: Number of recently used buckets kept: EventRateLimit's default.
KEPT: Final = 4096

_Key = tuple[str, str, str, str]


class EventRates:
    """The token buckets of one server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: monotonic seconds."""
        self._clock = clock
        # The time when the bucket will be full encodes its level in one number.
        self._full_at: OrderedDict[_Key, float] = OrderedDict()

    def admit(self, event: Event) -> None:
        """Take a token for an Event. Raises ApiError RESOURCE_EXHAUSTED if there is none."""
        about = event.involved_object
        source = event.source.component or event.reporting_controller
        key = (caller().user, source, about.namespace, about.uid or f"{about.kind}/{about.name}")
        now = self._clock()
        full_at = max(self._full_at.get(key, now), now) + EVERY
        if full_at > now + BURST * EVERY:
            raise errors.too_many_requests(
                f"{source or 'this source'} reports too many Events about one object",
                full_at - now - BURST * EVERY,
            )
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > KEPT:
            self._full_at.popitem(last=False)
