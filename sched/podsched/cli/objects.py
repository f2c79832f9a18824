"""Commands that write whole objects: apply, create, delete."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, starmap
from typing import Annotated, Any, Literal

import typer

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, object_key
from podsched.api.trace_context import trace_id
from podsched.cli.client import Namespace, ServerFlags, for_each, with_client
from podsched.cli.errors import FAILED, USAGE, fail, fail_if_cut_short, report, warn
from podsched.cli.flags import takes_flags
from podsched.cli.formats import reference
from podsched.cli.manifests import (
    READS,
    ManifestFlags,
    Manifests,
    patch,
    read_known,
    try_patch,
    written_hash,
)
from podsched.cli.options import (
    DryRun,
    DryRunOption,
    Filename,
    GracePeriod,
    LabelSelector,
    OptionalFilename,
    Recursive,
)
from podsched.cli.output import say
from podsched.cli.progress import Advance, progress_bar
from podsched.cli.targets import OptionalTargets, Target, check_scope, parse_targets
from podsched.config.flags import flag
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Conflict, NotFound, Unavailable, of_result

_BATCH_OBJECTS, _BATCH_BYTES = 500, 1 << 20
_CALLS_AT_ONCE = 32


#: Values of ``--cascade``: what happens to the objects that a deleted object owns.
Cascade = Literal["background", "foreground", "orphan"]
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(slots=True)
class Writer:
    """Creates objects in batches, and prints the outcomes in order."""

    client: ApiClient
    advance: Advance
    dry_run: DryRun
    written: int = 0
    failures: int = 0

    async def create(self, objects: Sequence[AnyObject]) -> None:
        """Create objects; those that exist are failures."""
        for batch in _batches(objects):
            for message, error in zip(batch, await self._created(batch), strict=True):
                self._report(message, error or "created")

    async def apply(self, objects: Sequence[AnyObject]) -> None:
        """Create objects, or patch those that exist."""
        at_once = asyncio.Semaphore(_CALLS_AT_ONCE)

        async def one(message: AnyObject, error: ClientError | None) -> str | ClientError:
            if error is None:
                return "created"
            async with at_once:
                return await self._patched(message, error)

        for batch in _batches(objects):
            results = await asyncio.gather(*map(one, batch, await self._created(batch)))
            for message, result in zip(batch, results, strict=True):
                self._report(message, result)

    async def carry_out(self, writes: Sequence[tuple[AnyObject, str]]) -> None:
        """Create objects, or patch those with a hash; stop after the first failure.

        What is created in one call with an object that is refused is created.
        """
        for is_new, group in groupby(writes, key=lambda write: not write[1]):
            new = _batches(message for message, _ in group)
            for step in map(self.create, new) if is_new else starmap(self._patch_planned, group):
                await step
                if self.failures:
                    made = f"{self.written} of {len(writes)} writes of the plan were made"
                    say(f"error: {made}{self.dry_run.suffix}", error=True)
                    return

    async def _patch_planned(self, message: AnyObject, planned: str) -> None:
        """Patch an object whose hash is still ``planned``, whatever is done to its status."""
        gone = NotFound(f"{reference(message)} does not exist any more")
        for _ in range(READS):
            result = await self._patched(message, gone, planned)
            if not isinstance(result, Conflict):
                break
        self._report(message, result)

    async def _created(self, batch: Sequence[AnyObject]) -> Sequence[ClientError | None]:
        if len(batch) > 1:
            results = await self.client.create_many(batch, dry_run=self.dry_run.asked)
            return [of_result(result) for result in results]
        [message] = batch
        try:
            created = await self.client.create(message, dry_run=self.dry_run.asked)
        except Unavailable:
            raise
        except ClientError as error:
            return [error]
        message.metadata.name = created.metadata.name  # generateName gives one
        return [None]

    async def _patched(
        self, message: AnyObject, refusal: ClientError, planned: str = ""
    ) -> str | ClientError:
        """Patch an object that could not be created; return the error if it does not exist.

        A manifest that is too incomplete to create an object may be enough to patch one.
        planned: the hash that the object must have, if any.
        """
        kind, meta = kind_of(message).name, message.metadata
        if not meta.name:
            return refusal
        try:
            try:
                before = await self.client.get(kind, meta.name, meta.namespace)
            except NotFound:
                return refusal
            if planned:
                if written_hash(before) != planned:
                    return ClientError("it has been changed since the plan was made")
                meta.resource_version = before.metadata.resource_version
            if self.dry_run.asked:
                before, after = await try_patch(self.client, message, before)
                same = after == before
            else:
                after = await patch(self.client, message, before, dry_run=False)
                same = after.metadata.resource_version == before.metadata.resource_version
        except Unavailable:
            raise
        except ClientError as error:
            return error
        return "unchanged" if same else "configured"

    def _report(self, message: AnyObject, result: str | ClientError) -> None:
        self.advance()
        if isinstance(result, str):
            self.written += 1
            say(f"{reference(message)} {result}{self.dry_run.suffix}")
        else:
            self.failures += 1
            report(result, f"{reference(message)}: ")


Act = Callable[[Writer, Sequence[AnyObject]], Awaitable[None]]


def _batches(objects: Iterable[AnyObject]) -> Iterator[list[AnyObject]]:
    """Yield objects of one kind together, in their order: a pod's class and claims come before it.

    An object with generateName is alone, because only single calls return the name. If an object
    comes twice, the second one is in a later batch, because a batch is patched at once.
    """
    batch: list[AnyObject] = []
    size = 0
    keys: set[str] = set()
    for message in objects:
        alone = not message.metadata.name
        # An object that is too large for a call is alone, and takes no other one with it.
        full = len(batch) == _BATCH_OBJECTS or size + message.ByteSize() > _BATCH_BYTES
        twice = object_key(message) in keys
        if batch and (alone or full or twice or type(message) is not type(batch[0])):
            yield batch
            batch, size, keys = [], 0, set()
        batch.append(message)
        keys.add(object_key(message))
        size += message.ByteSize()
        if alone:
            yield batch
            batch, size, keys = [], 0, set()
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class _WriteFlags(ManifestFlags):
    skip_unknown: bool = flag(False)
    """Warn about unknown kinds instead of failing."""
    dry_run: DryRunOption = flag(DryRun.NONE)
    trace: bool = flag(False)
    """Trace the pods from this command until they are Running, and print the trace's id. Processes
    export their spans to their --otlp-endpoint, the command its own to OTEL_EXPORTER_OTLP_ENDPOINT,
    if set."""


@takes_flags
def apply(
    filename: OptionalFilename = None,
    plan: Annotated[
        str,
        typer.Option(
            metavar="TOKEN|FILE",
            help="Carry out a plan of sched plan, unless something that it depends on has changed.",
        ),
    ] = "",
    *,
    given: _WriteFlags,
) -> None:
    """Create the objects in manifests, or update those that exist.

    Fields that a manifest leaves out keep their values. A manifest with a
    resourceVersion is only applied to that version of the object.
    """
    if bool(filename) == bool(plan):
        fail("use either -f FILE or --plan TOKEN", USAGE)
    if plan:
        from podsched.cli.plan import checked  # not above: deciding needs more than the client

        writes = checked(plan, given.server)
        found = Manifests([message for message, _ in writes], [])
        _write(found, lambda writer, _: writer.carry_out(writes), given, "sched apply")
    else:
        _write(given.read(filename or ()), Writer.apply, given, "sched apply")


@takes_flags
def create(filename: Filename, given: _WriteFlags) -> None:
    """Create the objects in manifests; fail if one exists."""
    _write(given.read(filename), Writer.create, given, "sched create")


def _write(found: Manifests, act: Act, given: _WriteFlags, command: str) -> None:
    name, skip = command if given.trace else "", given.skip_unknown
    write_objects(given.server, found, act, given.dry_run, skip_unknown=skip, traced_as=name)


def write_objects(
    server: str,
    found: Manifests,
    act: Act,
    dry_run: DryRun,
    *,
    skip_unknown: bool = False,
    traced_as: str = "",
) -> None:
    """Write objects with ``act``, and report those of unknown kinds; exit if any failed.

    ``traced_as``: the name of the trace of the calls; "": they are not traced.
    """

    async def work(client: ApiClient) -> int:
        with progress_bar("objects", len(found.objects)) as advance:
            writer = Writer(client, advance, dry_run)
            await act(writer, found.objects)
        return writer.failures

    failures = 0
    if found.objects:
        with fail_if_cut_short(), _traced(traced_as) as context:
            failures = with_client(server, work, traceparent=context)
    for line in found.unknown:
        if skip_unknown:
            warn(f"skipped: {line}")
        else:
            say(f"error: {line} (--skip-unknown ignores it)", error=True)
    if failures or (found.unknown and not skip_unknown):
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    filename: list[str] | None = flag(None, "FILE|DIR|-", names="--filename -f")
    """Delete the objects in these manifests."""
    everything: bool = flag(False, names="--all")
    """Delete all objects of the kind."""
    cascade: Cascade = flag("background")
    """Owned objects are deleted afterwards (background), deleted first (foreground), or kept
    (orphan)."""
    ignore_not_found: bool = flag(False)
    """Do not fail on missing objects."""


@takes_flags
def delete(
    given: _Flags,
    targets: OptionalTargets = None,
    recursive: Recursive = False,
    namespace: Namespace = "default",
    selector: LabelSelector = "",
    grace_period: GracePeriod = -1,
    dry_run: DryRunOption = DryRun.NONE,
) -> None:
    """Delete objects by name, by selector, or the objects in manifests."""
    how: dict[str, Any] = {
        "grace_period_seconds": None if grace_period < 0 else grace_period,
        "propagation_policy": given.cascade.capitalize(),
        "dry_run": dry_run.asked,
    }
    if given.filename:
        if targets or selector or given.everything:
            fail("-f cannot be combined with KIND, -l or --all", USAGE)
        found = read_known(given.filename, namespace, strict=False, recursive=recursive)
        for line in found.unknown:
            warn(f"skipped: {line}")
        every = [*map(_target_of, found.objects)]
    else:
        every = parse_targets(targets or [], namespace)
        check_scope(every, selector, everything=given.everything)

    async def named(_: ApiClient) -> list[Target]:
        return every

    async def all_of(client: ApiClient, target: Target) -> None:
        kind, selected = target.kind, {"label_selector": selector, **how}
        count = await client.delete_collection(kind.name, target.namespace, **selected)
        say(f"{count} {kind.plural} deleted{dry_run.suffix}")

    if selector or given.everything:
        with fail_if_cut_short():
            for_each(given.server, named, all_of)
        return
    with fail_if_cut_short(), progress_bar("objects", len(every)) as advance:

        async def one(client: ApiClient, target: Target) -> None:
            advance()
            try:
                await client.delete(target.kind.name, target.name, target.namespace, **how)
            except NotFound:
                if given.ignore_not_found:
                    return
                raise
            say(f"{target} deleted{dry_run.suffix}")

        for_each(given.server, named, one)


def _target_of(item: AnyObject) -> Target:
    """Return the object that a manifest names; exit if it names none."""
    kind, meta = kind_of(item), item.metadata
    if not meta.name:
        what = f"{kind.name} {meta.generate_name}".strip()
        fail(f"{what}: no name, by which it could be deleted")
    return Target(kind, meta.name, meta.namespace)


@contextmanager
def _traced(command: str) -> Iterator[str]:
    """Yield the context for the calls of a command; "" if none is named."""
    if not command:
        yield ""
        return
    endpoint = os.environ.get(_ENDPOINT, "")
    if not endpoint:
        context = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        say(f"trace {trace_id(context)}", error=True)
        yield context
        return
    from podsched.telemetry.tracing import configure_tracing  # of the server extra; takes 0.3 s

    tracer = configure_tracing("podsched-cli", endpoint, instance=socket.gethostname())
    try:
        with tracer.start(command) as span:
            say(f"trace {trace_id(span.context)}", error=True)
            yield span.context
    finally:
        tracer.shutdown()
