"""Fill the queues from a cluster's objects, with the code of the leader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject
from podsched.cache.cache import Cache
from podsched.config.load import SchedulerConfiguration
from podsched.term.admission.admission import Admission
from podsched.term.admission.changes import READERS


def admission_of(objects: Iterable[AnyObject], config: SchedulerConfiguration) -> Admission:
    """Return the queues of a cluster; past usage is read from the objects' status.

    ``objects``: each with a uid. The pods of the profiles wait in the queues. Raises QuantityError.
    """
    cache = Cache(schedulers={profile.scheduler_name for profile in config.profiles})
    admission = Admission(cache, config.queues)
    deque(fill(admission, cache, objects), maxlen=0)
    return admission


def fill(
    admission: Admission,
    cache: Cache,
    objects: Iterable[AnyObject | None],
    *,
    skips_unusable: bool = False,
) -> Iterator[None]:
    """Put objects into an empty cache and empty queues, in short steps between the yields.

    A None among the objects only yields. ``skips_unusable``: objects that cannot be read are left
    out, as by the scheduler (``term.set_aside``); otherwise this raises QuantityError.
    """
    for obj in objects:
        if obj is not None:
            kind = kind_of(obj).name
            try:
                if kind in READERS:
                    READERS[kind](obj)
                cache.apply(kind, None, obj)
            except ValueError:
                if not skips_unusable:
                    raise
        yield
    yield from admission.refresh(0.0)
