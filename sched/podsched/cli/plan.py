"""``sched plan``: show what applying manifests would do, and check it before it is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import typer

from podsched.api.kinds import kind_of
from podsched.api.manifest import ManifestError, apply_merge_patch, from_manifest, to_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.api.pod_defaulting import add_default_tolerations, default_pod_spec
from podsched.api.quantity import QuantityError
from podsched.ask.whatif.plan import (
    Decision,
    Forecast,
    differing,
    fingerprints,
    forecast,
    on_nodes,
    reference,
)
from podsched.ask.whatif.world import World
from podsched.cli import plan_files
from podsched.cli.client import with_client
from podsched.cli.cluster_source import admit, all_objects
from podsched.cli.config import read_source
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, report, warn
from podsched.cli.flags import takes_flags
from podsched.cli.formats import reference as short_reference
from podsched.cli.manifests import ManifestFlags, merge_patch_of, try_patch, written_hash
from podsched.cli.options import Filename, Form
from podsched.cli.output import show_answer
from podsched.cli.policy import ConfigSource
from podsched.cli.printers import first_rows
from podsched.cli.what_if import count_in_queues, move_document, move_lines
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.load import SchedulerConfiguration, load_config
from podsched.decide.runtime.user_plugins import user_plugin_specs
from podsched.framework.plugin import PluginError
from podsched.lab.replay.queue_world import QueueWorld
from podsched.registry import factories
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Forbidden, Invalid, NotFound
from podsched.telemetry.log_output import configure_logging

#: Max writes that are shown, and max changes that are named when a plan is refused.
_LISTED, _NAMED = 60, 10


class Action(StrEnum):
    """The effect of applying a manifest."""

    CREATE = "create"
    CONFIGURE = "configure"
    UNCHANGED = "unchanged"


class Write(NamedTuple):
    """The write for one manifest; ``after``: the object then.

    ``before``: a hash of the object that the manifest was compared with; "" if there is none.
    """

    action: Action
    manifest: AnyObject
    after: AnyObject
    before: str = ""


@dataclass(frozen=True, slots=True)
class Now:
    """The current objects of the cluster that scheduling reads.

    ``by_reference``: these, and the existing objects of other kinds that the manifests name.
    """

    objects: Sequence[AnyObject]
    by_reference: Mapping[str, AnyObject]


@dataclass(frozen=True, slots=True)
class _Flags(ManifestFlags):
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file of the schedulers, if any."""
    out: Path | None = flag(None, "FILE")
    """Write the plan to this file, to apply it on another machine."""
    output: Form = flag("table", names="--output -o")
    """Output format."""


@takes_flags
def plan(filename: Filename, given: _Flags) -> None:
    """Show what applying manifests would do: writes, placements and preemptions.

    Nothing is written. The token at the end is for sched apply --plan, which carries out the plan
    unless something that it depends on has changed (docs/what-if.md).

    Ends with 0 if all new pods would get a node, with 1 if one would not, and with 2
    if a plugin failed.
    """
    configure_logging("text", "warning")
    found = given.read(filename)
    for line in found.unknown:
        warn(f"skipped: {line}")
    if not found.objects:
        fail("the manifests have no object of a kind that podsched has")
    if unnamed := [o for o in found.objects if not o.metadata.name]:
        kind = kind_of(unnamed[0]).name
        fail(f"{kind} without a name: a plan needs the names of all objects", USAGE)
    manifests = _each_once(found.objects)
    config, written = read_source(ConfigSource(given.config))
    now = with_client(given.server, lambda client: _read(client, manifests))
    writes = _tried(given.server, manifests, now)
    forecast = _forecast(now, writes, config)
    token = plan_files.save(_document(now, writes, forecast, written), given.out)
    how = ["", f"To carry it out: sched apply --plan {given.out or token}"]
    lines = [*_lines(writes, forecast), *how]
    show_answer(_shown(writes, forecast, token), lines, as_json=given.output == "json")
    if forecast.failed:
        raise typer.Exit(2)
    if not all(one.node for one in forecast.decisions):
        raise typer.Exit(FAILED)


def _each_once(manifests: Sequence[AnyObject]) -> list[AnyObject]:
    """Return manifests without repetitions; exit if two different ones are of one object."""
    found: dict[str, AnyObject] = {}
    for manifest in manifests:
        if found.setdefault(reference(manifest), manifest) != manifest:
            what = short_reference(manifest)
            fail(f"{what} has several manifests that differ: a plan writes an object once", USAGE)
    return list(found.values())


def _tried(server: str, manifests: Sequence[AnyObject], now: Now) -> list[Write]:
    """Return the writes for manifests; exit if the API server would refuse one."""
    writes = [_write(manifest, now) for manifest in manifests]
    tried = with_client(server, lambda client: try_changes(client, writes, now.by_reference))
    if None in tried:
        raise typer.Exit(FAILED)
    return [write for write in tried if write is not None]


async def _read(client: ApiClient, manifests: Sequence[AnyObject]) -> Now:
    objects = await all_objects(client)
    found = {reference(obj): obj for obj in objects}
    for manifest in manifests:
        name = reference(manifest)
        if name not in found:
            meta = manifest.metadata
            try:
                found[name] = await client.get(kind_of(manifest).name, meta.name, meta.namespace)
            except NotFound:
                continue
    return Now(objects, found)


def _write(manifest: AnyObject, now: Now) -> Write:
    before = now.by_reference.get(reference(manifest))
    if before is None:
        return Write(Action.CREATE, manifest, deepcopy(manifest))
    with fail_on(ManifestError):
        after = apply_merge_patch(before, merge_patch_of(manifest)).message
    if isinstance(after, Pod):
        # A patch replaces whole lists, such as the containers, so defaults in them are missing.
        default_pod_spec(after.spec)
        add_default_tolerations(after.spec)
    action = Action.UNCHANGED if after == before else Action.CONFIGURE
    return Write(action, manifest, after, written_hash(before))


async def try_changes(
    client: ApiClient, writes: Sequence[Write], before: Mapping[str, AnyObject]
) -> list[Write | None]:
    """Return the writes as the API server would make them, with its defaults.

    Those that it would refuse as invalid are printed, and None. Only changes are asked about: what
    a new object needs may be created with it, and one who makes a plan need not have the right to
    carry it out. ``before``: the objects to change, by reference.
    """
    found: list[Write | None] = []
    for write in writes:
        tried: Write | None = write
        if write.action is Action.CONFIGURE:
            try:
                there = before[reference(write.manifest)]
                there, after = await try_patch(client, write.manifest, there)
                action = Action.UNCHANGED if after == there else Action.CONFIGURE
                tried = Write(action, write.manifest, after, written_hash(there))
            except Invalid as error:
                report(error, f"{short_reference(write.after)}: ")
                tried = None
            except Forbidden:
                pass
        found.append(tried)
    return found


def _forecast(now: Now, writes: Sequence[Write], config: SchedulerConfiguration) -> Forecast:
    """Return the result of scheduling after all writes."""
    after = {reference(obj): obj for obj in now.objects}
    after |= {reference(write.after): write.after for write in writes}
    new = []
    for write in writes:
        if write.action is Action.CREATE and isinstance(write.after, Pod):
            new.append(write.after)
            del after[reference(write.after)]
    admit(list(after.values()), new)
    bound = [pod for pod in new if pod.spec.node_name]
    waiting = [pod for pod in new if not pod.spec.node_name]
    objects = [*after.values(), *bound]
    kind = QueueWorld if count_in_queues(objects, waiting) else World
    with fail_on(QuantityError, PluginError):
        return forecast(kind.of_objects(objects, config, factories()), waiting)


def _document(
    now: Now, writes: Sequence[Write], forecast: Forecast, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the document of a plan."""
    return {
        "kind": "Plan",
        "config": dict(config),
        "writes": [
            {
                "action": write.action.value,
                "object": to_manifest(write.manifest),
                "before": write.before,
            }
            for write in writes
        ],
        "decisions": [_decision_document(one) for one in forecast.decisions],
        "read": fingerprints(now.objects),
        "nodes": sorted(forecast.touched),
        "touched": sorted(on_nodes(now.objects, forecast.touched)),
    }


def _decision_document(one: Decision) -> dict[str, Any]:
    found = {"pod": one.pod, "node": one.node, "victims": list(one.victims), "message": one.message}
    return {name: value for name, value in found.items() if value}


def _shown(writes: Sequence[Write], forecast: Forecast, token: str) -> dict[str, Any]:
    return {
        "token": token,
        "writes": [{"action": w.action.value, "object": reference(w.after)} for w in writes],
        "pods": [_decision_document(one) for one in forecast.decisions],
        "moves": [move_document(move) for move in forecast.moves],
    }


def _lines(writes: Sequence[Write], forecast: Forecast) -> Iterator[str]:
    counts = Counter(write.action for write in writes)
    words = dict(zip(Action, ("to create", "to change", "unchanged"), strict=True))
    yield ", ".join(f"{counts[action]:,} {words[action]}" for action in Action if counts[action])
    shown = [write for write in writes if write.action is not Action.UNCHANGED]
    if shown:
        yield ""
        rows = [[write.action.value, short_reference(write.after)] for write in shown]
        yield from first_rows(rows, _LISTED)
    placed = [one for one in forecast.decisions if one.node]
    if placed:
        yield ""
        columns = 3 if any(one.victims for one in placed) else 2
        rows = [[one.pod, one.node, ", ".join(one.victims) or "-"][:columns] for one in placed]
        yield from first_rows(rows, _LISTED, ["POD", "NODE", "PREEMPTS"][:columns])
    misfits = [[one.pod, one.message] for one in forecast.decisions if not one.node]
    if misfits:
        yield ""
        yield from first_rows(misfits, _LISTED, ["WITHOUT A NODE", "WHY"])
    if forecast.moves:
        yield ""
        yield from move_lines(forecast.moves)


# ---------------------------------------------------------------------- before it is carried out


def checked(name: str, server: str) -> list[tuple[AnyObject, str]]:
    """Return the manifests that a plan writes, each with the hash of the object to patch.

    Exits if something has changed that the plan depends on.
    """
    document = plan_files.load(name)
    try:
        manifests = [from_manifest(write["object"]).message for write in document["writes"]]
        planned = [_decision_of(one) for one in document["decisions"]]
        before = dict(document["read"])
        kept = set(document["touched"]), set(document["nodes"])
        expected = [(Action(w["action"]), str(w["before"])) for w in document["writes"]]
        config = dict(document["config"])
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        fail(f"--plan {name}: not a plan: {type(exc).__name__}: {exc}", USAGE)
    now = with_client(server, lambda client: _read(client, manifests))
    problems = [*_changed_targets(manifests, expected, now)]
    changed = differing(before, fingerprints(now.objects))
    concerned = kept[0] | on_nodes(now.objects, kept[1])
    problems += [f"{ref} is {how}" for ref, how in changed.items() if ref in concerned]
    problems = [*dict.fromkeys(problems)]
    if changed and not problems:
        writes = _tried(server, manifests, now)
        problems += _other_decisions(planned, writes, now, config, changed)
    if problems:
        shown = problems[:_NAMED]
        if len(problems) > _NAMED:
            shown.append(f"and {len(problems) - _NAMED:,} more")
        lines = "\n".join(f"  {problem}" for problem in shown)
        fail(
            f"the plan depends on objects that have changed; nothing was written:\n{lines}", FAILED
        )
    return [
        (manifest, there)
        for manifest, (action, there) in zip(manifests, expected, strict=True)
        if action is not Action.UNCHANGED
    ]


def _decision_of(document: Mapping[str, Any]) -> Decision:
    return Decision(document["pod"], document.get("node", ""), tuple(document.get("victims", ())))


def _changed_targets(
    manifests: Sequence[AnyObject], expected: Sequence[tuple[Action, str]], now: Now
) -> Iterator[str]:
    """Yield the objects to write that have changed since they were read."""
    for manifest, (action, before) in zip(manifests, expected, strict=True):
        name = reference(manifest)
        there = now.by_reference.get(name)
        if action is Action.CREATE:
            if there is not None:
                yield f"{name} exists now"
        elif there is None:
            yield f"{name} is gone"
        elif written_hash(there) != before:
            yield f"{name} is changed"


def _other_decisions(
    planned: Sequence[Decision],
    writes: Sequence[Write],
    now: Now,
    config: Mapping[str, Any],
    changed: Mapping[str, str],
) -> Iterator[str]:
    """Yield the pods that would go elsewhere now, and changes that may be the cause."""
    with fail_on(ConfigError, about="--plan: config"):
        loaded = load_config(config, known_plugins=user_plugin_specs(factories()))
    again = {one.pod: one for one in _forecast(now, writes, loaded).decisions}
    different = False
    for one in planned:
        other = again.get(one.pod, Decision(one.pod, ""))
        if (other.node, other.victims) != (one.node, one.victims):
            different = True
            if other.node == one.node:
                yield f"Pod/{one.pod} would preempt {', '.join(other.victims) or 'no pod'} now"
            else:
                would = f"would go to {other.node}" if other.node else "would not fit"
                yield f"Pod/{one.pod} {would} now (planned: {one.node or 'no node'})"
    if different:
        causes = [f"{ref} is {how}" for ref, how in changed.items()][:3]
        yield f"(since the plan was made: {'; '.join(causes)}{', ...' if len(changed) > 3 else ''})"
