"""Counts the usage of queues from a cluster's objects, with the code that a leader counts with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject
from podsched.cache.cache import Cache
from podsched.config.queues import QueuesConfiguration
from podsched.term.admission.admission import Admission


def admission_of(
    objects: Iterable[AnyObject], settings: QueuesConfiguration, schedulers: Iterable[str]
) -> Admission:
    """Return the queues of a cluster's objects, each with a uid; past usage is as they say.

    ``schedulers``: the names of the profiles, whose pods wait in the queues. Raises QuantityError.
    """
    cache = Cache(schedulers=set(schedulers))
    admission = Admission(cache, settings)
    deque(count(admission, cache, objects), maxlen=0)
    return admission


def count(
    admission: Admission, cache: Cache, objects: Iterable[AnyObject | None]
) -> Iterator[None]:
    """Do the same with the empty queues of an empty cache, in short steps; None: an empty step."""
    for obj in objects:
        if obj is not None:
            cache.apply(kind_of(obj).name, None, obj)
        yield
    yield from admission.refresh(0.0)
