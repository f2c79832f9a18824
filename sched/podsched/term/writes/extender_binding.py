"""Let an extender bind a pod: the extender calls the API server, and the informer shows the result.

    called --answered "bound"--> awaited --informer shows the node--> done
      |                             |
      '-- answered an error         '-- not shown in time --> failed

If a bug ends the term, calls in progress continue, and the next state is built only after their
outcomes have been read; otherwise a node might seem to have room that is taken. If the term ends in
any other way, this replica leads no longer, and the calls are cancelled.

Such a binding carries no fence: if a leader whose lease has expired calls an extender, it still
binds. Then only the rule that a pod is bound at most once protects the cluster.

Source: extendersBinding of kube-scheduler v1.36. kube-scheduler believes an extender that says it
has bound a pod; here the informer has to show it.
"""

from __future__ import annotations

import asyncio
from itertools import starmap

from podsched.api.objects import Pod
from podsched.cache.cache import Cache
from podsched.decide.extenders.calls import ExtenderClient
from podsched.decide.extenders.wire import ExtenderError
from podsched.framework.status import SKIP, SUCCESS, Status, error
from podsched.lib.tasks import Changes, TaskSet
from podsched.serve.client.cluster import TermCluster
from podsched.serve.client.errors import ClientError, NotFound
from podsched.telemetry.logs import get_logger
from podsched.term.after_trial import AfterTrial
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("extenders")

#: Seconds within which the informer must show a binding that an extender has reported.
CONFIRMED_WITHIN = 30.0
#: Seconds between two reads of a pod that is not bound yet.
_READ_EVERY = 0.5


class ExtenderBindings:
    """Lets extenders bind pods of one term, and finds out whether they have."""

    def __init__(
        self, cluster: TermCluster, cache: Cache, changes: Changes, after_trial: AfterTrial
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._changes = changes
        self._after_trial = after_trial
        self._calls = TaskSet("extenders that bind")
        #: The calls, which return an error or None. Not by uid: a pod may be asked for again before
        #: the end of the last try is noticed.
        self._asked: dict[Assignment, asyncio.Task[ExtenderError | None]] = {}
        #: A revision that includes the bindings that ``ask_again`` has found.
        self.revision = 0

    def __len__(self) -> int:
        """Return the number of pods whose outcome is unknown."""
        return len(self._asked)

    def ask(self, client: ExtenderClient, assignment: Assignment) -> None:
        """Let an extender bind a pod; ``outcome`` waits for the result."""
        name = f"extender binds {assignment.pod.key}"
        self._asked[assignment] = self._calls.start(_call(client, assignment), name)

    async def outcome(self, client: ExtenderClient, assignment: Assignment) -> Status:
        """Return SUCCESS when the pod is bound, SKIP if an ignorable extender failed, or an error.

        When it is cancelled, the call goes on.
        """
        pod = assignment.pod
        # The term may end while the extender binds; ``ask_again`` then needs the outcome.
        failure = await asyncio.shield(self._asked[assignment])
        await self._after_trial.wait()
        if failure is not None:
            if not client.config.ignorable:
                return error(str(failure))
            _log.info(
                "Skipped an ignorable extender that failed to bind",
                extender=client.name,
                pod=pod.key,
                error=str(failure),
            )
            return SKIP
        if await self._is_confirmed(assignment):
            return SUCCESS
        return error(
            f'extender "{client.name}" says that it has bound the pod to node '
            f'"{assignment.node_name}", but it is not bound'
        )

    async def _is_confirmed(self, assignment: Assignment) -> bool:
        """Return whether the pod is seen with a node before time is up and before it is gone."""
        pod = assignment.pod
        clock = asyncio.get_running_loop().time
        deadline = clock() + CONFIRMED_WITHIN
        while pod.uid in self._cache.assumed:
            known = self._cache.cluster.pods.get(pod.key)
            left = deadline - clock()
            if known is None or known.uid != pod.uid or left <= 0:
                return False
            await self._changes.next(left)
            await self._after_trial.wait()
        return True

    def settled(self, assignment: Assignment) -> None:
        """Note that the outcome of an assignment is known."""
        del self._asked[assignment]

    async def ask_again(self) -> None:
        """Find out the outcomes of bindings that were in progress when the term ended."""
        found = await asyncio.gather(*starmap(self._revision_of, self._asked.items()))
        self.revision = max(found, default=0)

    async def _revision_of(
        self, assignment: Assignment, call: asyncio.Task[ExtenderError | None]
    ) -> int:
        """Return the revision of a pod that was bound; 0 for others."""
        if await call is not None:
            return 0
        wanted = assignment.pod
        clock = asyncio.get_running_loop().time
        deadline = clock() + CONFIRMED_WITHIN
        while clock() < deadline:
            try:
                pod = await self._cluster.get("Pod", wanted.name, wanted.namespace)
            except NotFound:
                return 0
            except ClientError as failure:
                _log.info("Could not read a pod", pod=wanted.key, error=str(failure))
            else:
                # It is bound, or gone and another pod has its name: this revision shows which.
                if isinstance(pod, Pod) and (pod.metadata.uid != wanted.uid or pod.spec.node_name):
                    return int(pod.metadata.resource_version)
            await asyncio.sleep(_READ_EVERY)
        return 0

    async def close(self) -> None:
        await self._calls.stop()


async def _call(client: ExtenderClient, assignment: Assignment) -> ExtenderError | None:
    try:
        await client.bind(assignment.pod, assignment.node_name)
    except ExtenderError as failure:
        return failure
    return None
