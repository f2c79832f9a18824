"""When a leader hands the lock over without being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from podsched.app.leader_requests import StandbyReplica
from podsched.telemetry.logs import get_logger

_log = get_logger("replica")
#: Seconds between two checks for a standby of higher priority; the leader hands over at the second
#: check that finds it.
PREFER_AFTER = 2.0
#: Seconds after which the leader hands over again to a standby that has not taken the lock: it may
#: be cut off from etcd alone, and each try is half a second without a leader.
PREFER_AGAIN_AFTER = 60.0
#: Seconds without an API server after which a leader releases the lock. As long as renewDeadline,
#: after which a kube-scheduler stops leading if it cannot renew its lease through the API server.
CUT_OFF_AFTER = 10.0


async def give_way(
    priority: int,
    *,
    is_leader: Callable[[], bool],
    successor: Callable[[], StandbyReplica | None],
    unheard: Callable[[], float],
    hand_over: Callable[[str], None],
) -> None:
    """Hand over to a standby of higher priority that two checks in a row have found.

    A standby that has not taken the lock is tried again after ``PREFER_AGAIN_AFTER``.

    Also release the lock if this replica reaches no API server, because then it cannot do the
    leader's work. ``successor`` and ``unheard``: as in ``LeaderRequests``. ``hand_over`` gets the
    next leader's identity, "" for any.
    """
    clock = asyncio.get_running_loop().time
    waiting = tried = ""
    again_at = 0.0
    while True:
        await asyncio.sleep(PREFER_AFTER)
        if is_leader() and unheard() > CUT_OFF_AFTER:
            _log.error("No API server can be reached: another replica may try")
            hand_over("")
            continue
        best = successor() if is_leader() else None
        preferred = best.identity if best is not None and best.priority > priority else ""
        if preferred and preferred == waiting and (preferred != tried or clock() >= again_at):
            hand_over(preferred)
            tried, again_at = preferred, clock() + PREFER_AGAIN_AFTER
        waiting = preferred
