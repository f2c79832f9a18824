"""Reads manifests from files, directories and standard input."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import typer

from podsched.api.kinds import KINDS, kind_of
from podsched.api.manifest import (
    ManifestError,
    describe,
    from_manifest,
    load_documents,
    to_manifest,
)
from podsched.api.objects import AnyObject, Pod, copy_of
from podsched.cli.client import Namespace, ServerFlags
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, warn
from podsched.cli.options import Recursive
from podsched.cli.output import say
from podsched.config.flags import flag
from podsched.lib.files import open_file
from podsched.serve.client.api_client import ApiClient
from podsched.serve.server.strategic import merge_key

#: Max bytes of a file. A manifest of 20,000 pods from ``kubectl get -o yaml`` has some 60 MB. An
#: endless file (``/dev/zero``) is refused before memory runs out.
MAX_BYTES = 128 << 20

STANDARD_INPUT = "standard input"

#: Kinds whose containers cannot be replaced. They are merged by name: other clients and their
#: servers have filled in fields that a manifest leaves out.
_WITH_CONTAINERS = ("Pod", "Job")
#: Max times that an object is read again that others keep writing.
READS = 5

_SUFFIXES = (".yaml", ".yml", ".json")


def _texts(filenames: Iterable[str], *, recursive: bool) -> Iterator[tuple[str, str]]:
    for filename in filenames:
        if filename == "-":
            yield STANDARD_INPUT, text_in(STANDARD_INPUT, sys.stdin.buffer)
            continue
        if not filename:
            # An unset variable of a script must not name the current directory.
            fail('"" is not the name of a file', USAGE)
        if filename.startswith(("http://", "https://")):
            fail(f"{filename}: not a file: use curl -fsSL URL | sched ... -f -", USAGE)
        for file in _files(Path(filename), recursive=recursive):
            with fail_on(OSError, about=file, code=USAGE), open_file(file) as stream:
                text = text_in(str(file), stream)
            yield str(file), text


def _files(path: Path, *, recursive: bool) -> list[Path]:
    with fail_on(OSError, about=path, code=USAGE):
        if not path.is_dir():
            return [path]
        inside = path.rglob("*") if recursive else path.iterdir()
        files = sorted(p for p in inside if p.suffix in _SUFFIXES and not p.is_dir())
    if not files:
        more = "" if recursive else "; -R reads the directories in it as well"
        fail(f"{path}: the directory has no .yaml, .yml or .json file{more}", USAGE)
    return files


def text_in(source: str, stream: BinaryIO) -> str:
    """Return the text of a file; exit if it is too large or no text."""
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        fail(f"{source}: more than {MAX_BYTES >> 20} MiB; split it into several files", USAGE)
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        fail(f"{source}: not UTF-8 text (byte {exc.start + 1})", USAGE)


def _unknown(document: Mapping[str, Any]) -> str:
    """Return advice about a manifest of an unknown kind; "" for known kinds."""
    kind, version = document.get("kind"), document.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str) or not kind or not version:
        return ""  # malformed
    if kind in KINDS:
        return ""
    meant = next((known for known in KINDS if known.lower() == kind.lower()), "")
    if meant:
        return f'there is no kind "{kind}": did you mean {meant}?'
    spec = document.get("spec")
    if isinstance(spec, dict) and ("template" in spec or "jobTemplate" in spec):
        return f"podsched does not run a {kind}: submit its pods instead"
    return f"podsched has no kind {kind}, and does not need it to schedule pods"


def merge_patch_of(message: AnyObject) -> dict[str, Any]:
    """Return the merge patch that applies a manifest: everything except the status.

    A resourceVersion in the manifest stays in the patch: the server refuses the patch with a
    conflict if the object has changed since that version.
    """
    manifest = to_manifest(message)
    for key in ("apiVersion", "kind", "status"):
        manifest.pop(key, None)
    return manifest


def written_hash(message: AnyObject) -> str:
    """Return a value that changes if somebody changes more of an object than its status."""
    content = merge_patch_of(message)
    for name in ("resourceVersion", "managedFields"):
        content["metadata"].pop(name, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _with_tolerations(manifest: AnyObject, there: AnyObject) -> AnyObject:
    """Return the manifest of a pod with the tolerations that its RuntimeClass or others have added.

    The list is replaced as a whole, and a pod cannot lose a toleration.
    """
    if not (isinstance(manifest, Pod) and isinstance(there, Pod) and manifest.spec.tolerations):
        return manifest
    identity = attrgetter("key", "operator", "value", "effect")
    named = [identity(each) for each in manifest.spec.tolerations]
    full = copy_of(manifest)
    full.spec.tolerations.extend(t for t in there.spec.tolerations if identity(t) not in named)
    return full


def _has(there: Any, wanted: Any, name: str = "") -> bool:
    """Return whether a member of an object is as a manifest says; it may say less."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(_has(there.get(key), value, key) for key, value in wanted.items())
    if isinstance(there, list) and isinstance(wanted, list) and merge_key(name, wanted):
        return len(there) == len(wanted) and all(map(_has, there, wanted))
    return bool(there == wanted)


def _changes(there: Any, wanted: Any, name: str = "") -> Any:
    """Return the part of a manifest that an object does not have yet.

    A strategic patch with all of it would change lists in which a merge key occurs twice, such as
    ports for UDP and TCP.
    """
    if isinstance(there, dict) and isinstance(wanted, dict):
        lacking = {k: v for k, v in wanted.items() if not _has(there.get(k), v, k)}
        return {key: _changes(there.get(key), value, key) for key, value in lacking.items()}
    key = merge_key(name, wanted) if isinstance(there, list) else None
    if key is None or not all(key in item for item in wanted):
        return wanted
    known = {item.get(key): item for item in there}
    return [{key: each[key], **_changes(known.get(each[key], {}), each)} for each in wanted]


async def patch(
    client: ApiClient, manifest: AnyObject, there: AnyObject, *, dry_run: bool
) -> AnyObject:
    """Apply a manifest to the object that it names, and return this. Raises ClientError.

    there: the object as it was read.
    """
    kind, meta = kind_of(manifest).name, manifest.metadata
    strategic = kind in _WITH_CONTAINERS
    body = merge_patch_of(_with_tolerations(manifest, there))
    if strategic:
        body["spec"] = _changes(to_manifest(there).get("spec", {}), body.get("spec", {}))
    return await client.patch(
        kind, meta.name, body, meta.namespace, strategic=strategic, dry_run=dry_run
    )


async def try_patch(
    client: ApiClient, manifest: AnyObject, before: AnyObject
) -> tuple[AnyObject, AnyObject]:
    """Return an object before and after a manifest would be applied to it. Raises ClientError.

    before: the object as it was read. If it has been written since (by its controller, say), it is
        read again, or that write would look like an effect of the manifest.
    """
    kind, meta = kind_of(manifest).name, manifest.metadata
    after = await patch(client, manifest, before, dry_run=True)
    for _ in range(READS):
        if before.metadata.resource_version == after.metadata.resource_version:
            break
        before = await client.get(kind, meta.name, meta.namespace)
        after = await patch(client, manifest, before, dry_run=True)
    return before, after


class Manifests(NamedTuple):
    """The contents of manifests."""

    objects: list[AnyObject]
    unknown: list[str]
    """A line for each object of a kind that podsched does not have."""


def read_known(
    filenames: Sequence[str], namespace: str, *, strict: bool, recursive: bool = False
) -> Manifests:
    """Return the objects of known kinds, and lines about those of unknown kinds.

    Exits after printing every error if a manifest is malformed; exits if there is no object.
    """
    found = Manifests([], [])
    errors = 0
    for source, text in _texts(filenames, recursive=recursive):
        try:
            documents = load_documents(text)
        except ManifestError as exc:
            errors += 1
            say(f"error: {source}: {exc}", error=True)
            continue
        for document in documents:
            if kind := _unknown(document):
                found.unknown.append(f"{source}: {describe(document)}: {kind}")
                continue
            try:
                decoded = from_manifest(document, strict=strict)
            except ManifestError as exc:
                errors += 1
                say(f"error: {source}: {exc}", error=True)
                continue
            for warning in decoded.warnings:
                warn(f"{source}: {describe(document)}: {warning}")
            message = decoded.message
            if kind_of(message).namespaced and not message.metadata.namespace:
                message.metadata.namespace = namespace
            found.objects.append(message)
    if errors:
        raise typer.Exit(FAILED)
    if not found.objects and not found.unknown:
        named = [STANDARD_INPUT if name == "-" else name for name in filenames]
        fail(f"{', '.join(named)}: no objects")
    return found


@dataclass(frozen=True, slots=True)
class ManifestFlags(ServerFlags):
    """How manifests are read."""

    namespace: Namespace = flag("default")
    strict: bool = flag(False)
    """Refuse unknown fields instead of warning."""
    recursive: Recursive = flag(False)

    def read(self, filenames: Sequence[str]) -> Manifests:
        """Return the objects in files, as ``read_known`` does."""
        return read_known(filenames, self.namespace, strict=self.strict, recursive=self.recursive)
