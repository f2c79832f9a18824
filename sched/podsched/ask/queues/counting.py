"""Counts the usage of queues from a cluster's objects, with the code that a leader counts with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

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
    for obj in objects:
        cache.apply(kind_of(obj).name, None, obj)
    admission = Admission(cache, settings)
    deque(admission.refresh(0.0), maxlen=0)
    return admission
