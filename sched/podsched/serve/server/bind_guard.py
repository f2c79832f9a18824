"""Prevents two schedulers from giving the same capacity of a node to different pods.

Schedulers with different locks on one store do not know each other's assumed pods. Each decides on
the state at some revision, which its bindings name. If there is more than one lock, a binding puts
the key of its node and its own lock. It is refused if the key of that node and any other lock has
been put since the named revision. So if two bindings use the same capacity, the second to arrive is
refused, and its pod is scheduled again with the first one counted. A binding is also refused if its
node does not exist, or was created again since, because the keys of a node are deleted with it.

    /podsched/schedulers                              the locks whose holders bind
    /podsched/bound/<node>/<namespace>/<name>         put by bindings to a node under that lock

With one lock, the usual case, no key is put, and only the key of the list of locks is compared,
which detects a second lock. A scheduler that enters the list has bound nothing before and may not
have seen bindings that others made while they were alone; so decisions made before the list changed
are refused, too.

When a lock enters the list, locks without a holder are dropped. They enter again when they bind.

Schedulers that bind like Kubernetes' schedulers have no lock here and name no revision. Together
they count as one more lock, ``UNLOCKED``, which stays in the list: others notice their bindings,
but their own bindings are never refused, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.etcd_keys import SCHEDULERS, bound_key, object_key, term_key
from podsched.api.kinds import KINDS
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import (
    Compare,
    CompareRelation,
    CompareTarget,
    Delete,
    KeyValue,
    Put,
    Store,
    Write,
    WriteOp,
)
from podsched.v1.api_pb2 import Binding, Fence

#: Entry in the list for schedulers that bind without a lock.
UNLOCKED = "-"

NODE = KINDS["Node"]
#: A lock enters the list once in a cluster's life; this many lost races indicate a bug.
_ATTEMPTS = 16


class BindGuard:
    """Makes the compares of bindings, which also verify this object's copy of the list of locks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._locks: tuple[str, ...] = ()
        self._revision = 0
        #: The revision that a decision must be based on at least.
        self._since = 0

    def forget(self) -> None:
        """Drop the copy of the list of locks: its revisions belong to another history."""
        self._locks, self._revision, self._since = (), 0, 0

    async def admit(self, fence: Fence | None) -> None:
        """Ensure that the lock, or ``UNLOCKED``, is in the list.

        A lost fence is not detected here but by the binding. Raises ApiError when the store does
        not answer.
        """
        for _ in range(_ATTEMPTS):
            if (fence.lock if fence is not None else UNLOCKED) in self._locks:
                return
            try:
                if not await self._enter(fence):
                    return
            except StoreError as error:
                raise errors.of_store(error) from error
        raise errors.unavailable("the list of schedulers changes all the time")

    async def _enter(self, fence: Fence | None) -> bool:
        """Try once to put the lock into the list; return False if the fence is lost.

        Returns True also if the list has changed meanwhile; the copy is then up to date. Locks
        without a holder are removed by the same write, which compares that they have none.
        """
        held = [lock for lock in self._locks if lock != UNLOCKED]
        free = [lock for lock in held if (await self._store.get(term_key(lock))).kv is None]
        name = fence.lock if fence is not None else UNLOCKED
        locks = sorted({name, *self._locks} - set(free))
        own = () if fence is None else (Compare.mod_revision_is(term_key(name), fence.term),)
        compares = (
            Compare.mod_revision_is(SCHEDULERS, self._revision),
            *own,
            *(Compare.absent(term_key(lock)) for lock in free),
        )
        write = Write(compares, (Put(SCHEDULERS, "\n".join(locks).encode()),))
        (result,) = await self._store.write_many([write])
        if isinstance(result, StoreError):
            raise result
        if result.succeeded:
            # With the first lock in the list, there are no bindings of others to have missed.
            self._since = result.revision if self._revision else 0
            self._locks, self._revision = tuple(locks), result.revision
            return True
        self._learn(result.current.get(SCHEDULERS))
        if fence is None:
            return True
        term = result.current.get(term_key(name))
        return term is not None and term.mod_revision == fence.term

    def _learn(self, kv: KeyValue | None) -> None:
        self._locks = tuple(kv.value.decode().split("\n")) if kv is not None else ()
        self._revision = kv.mod_revision if kv is not None else 0
        # Version 1 is of the first lock in the list, which has missed no bindings.
        self._since = kv.mod_revision if kv is not None and kv.version > 1 else 0

    def conditions(
        self, binding: Binding, fence: Fence | None
    ) -> tuple[tuple[Compare, ...], tuple[WriteOp, ...]]:
        """Return the compares and puts of a binding.

        Raises ApiError if it was decided before the list of locks changed. A writer that names no
        revision (without a fence, or of an older version) ignores other schedulers' bindings; they
        notice its bindings if it has a fence.
        """
        node = binding.node_name
        there = Compare.exists(object_key(NODE, node))
        if fence is None:
            return (there,), ()
        listed = Compare.mod_revision_is(SCHEDULERS, self._revision)
        if 0 < binding.revision < self._since:
            raise errors.overtaken(node, "the list of schedulers has changed", self._since)
        if fence.lock not in self._locks:
            # It has left the list since ``admit``. This never holds, so that ``refusal`` is asked
            # why, unless the fence is lost.
            never = Compare(SCHEDULERS, CompareTarget.MOD_REVISION, CompareRelation.LESS, 0)
            return (there, never), ()
        if len(self._locks) <= 1:
            return (there, listed), ()
        put = Put(bound_key(node, fence.lock), b"")
        if not binding.revision:
            return (there, listed), (put,)
        # etcd has no "less or equal". A key that was never put has revision 0, so it passes.
        less, next_revision = CompareRelation.LESS, binding.revision + 1
        seen = Compare(there.key, CompareTarget.CREATE_REVISION, less, next_revision)
        unchanged = [
            Compare(bound_key(node, lock), CompareTarget.MOD_REVISION, less, next_revision)
            for lock in self._locks
            if lock != fence.lock
        ]
        return (there, listed, seen, *unchanged), (put,)

    def unlocked_conditions(self, node: str) -> tuple[tuple[Compare, ...], tuple[WriteOp, ...]]:
        """Return the compares and puts of a binding without a lock, by which others notice it."""
        listed = Compare.mod_revision_is(SCHEDULERS, self._revision)
        alone = len(self._locks) <= 1
        return (listed,), () if alone else (Put(bound_key(node, UNLOCKED), b""),)

    def update_list(self, current: Mapping[str, KeyValue | None]) -> None:
        """Update the copy of the list after a write that compares it has failed, for a retry.

        current: the present values of the compared keys.
        """
        self._learn(current.get(SCHEDULERS))

    def refusal(
        self, binding: Binding, fence: Fence | None, current: Mapping[str, KeyValue | None]
    ) -> ApiError | None:
        """Return why a binding failed although its pod is unchanged; None: it may be retried.

        current: the present values of the compared keys.
        """
        node = binding.node_name
        present = current.get(object_key(NODE, node))
        if present is None:
            return errors.not_found(NODE, node)
        if SCHEDULERS in current:
            self._learn(current[SCHEDULERS])
        if fence is not None and fence.lock not in self._locks:
            # Others have not compared its key. It enters the list again when it binds next.
            return errors.overtaken(node, "the list of schedulers has changed", self._revision)
        if len(self._locks) > 1 and 0 < binding.revision < present.create_revision:
            return errors.overtaken(node, "it was created again", present.create_revision)
        for lock in self._locks:
            kv = current.get(bound_key(node, lock))
            if kv is not None and kv.mod_revision > binding.revision:
                why = f'scheduler "{lock}" has bound a pod to it'
                return errors.overtaken(node, why, kv.mod_revision)
        return None

    def with_node_keys(self, mutation: Mutation) -> Mutation:
        """Return a mutation of a node that also removes the node's keys if it removes the node."""

        def change(entry: Entry) -> Step | None:
            step = mutation.change(entry)
            if step is None or step.value is not None:
                return step
            listed = Compare.mod_revision_is(SCHEDULERS, self._revision)
            keys = [Delete(bound_key(entry.key, lock)) for lock in self._locks]
            return step._replace(compares=(*step.compares, listed), ops=(*step.ops, *keys))

        return mutation._replace(change=change, refusal=self.update_list)
