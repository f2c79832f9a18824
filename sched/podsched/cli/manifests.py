"""Manifests from files, directories and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import typer

from podsched.api.kinds import kind_of
from podsched.api.manifest import ManifestError, describe, from_manifest, load_documents
from podsched.api.objects import AnyObject
from podsched.cli.errors import FAILED, fail, warn
from podsched.cli.output import say

#: A manifest of 20,000 pods as ``kubectl get -o yaml`` prints them has some 60 MB. What never ends
#: (``/dev/zero``) is refused instead of being read until memory runs out.
MAX_BYTES = 128 << 20


def _texts(filenames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for filename in filenames:
        if filename == "-":
            yield "standard input", _read(filename, sys.stdin.buffer)
            continue
        path = Path(filename)
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
            if not files:
                fail(f"{filename}: the directory has no .yaml, .yml or .json file")
        else:
            files = [path]
        for file in files:
            try:
                with file.open("rb") as stream:
                    text = _read(str(file), stream)
            except OSError as exc:
                fail(f"{file}: {exc.strerror or exc}")
            yield str(file), text


def _read(source: str, stream: BinaryIO) -> str:
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        fail(f"{source}: more than {MAX_BYTES >> 20} MiB; split it into several files")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        fail(f"{source}: {exc}")


def read_manifests(filenames: Sequence[str], namespace: str, *, strict: bool) -> list[AnyObject]:
    """Return the objects in files, directories or standard input.

    Exits after printing every error if a manifest is malformed, and if there is none at all.
    """
    objects: list[AnyObject] = []
    errors = 0
    for source, text in _texts(filenames):
        try:
            documents = load_documents(text)
        except ManifestError as exc:
            errors += 1
            say(f"error: {source}: {exc}", error=True)
            continue
        for document in documents:
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
            objects.append(message)
    if errors:
        raise typer.Exit(FAILED)
    if not objects:
        fail("the files contain no objects")
    return objects
