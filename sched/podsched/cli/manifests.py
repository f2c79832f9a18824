"""Manifests from files, directories and standard input, every mistake reported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import typer

from podsched.api.kinds import kind_of
from podsched.api.manifest import ManifestError, describe, from_manifest, load_documents
from podsched.api.objects import AnyObject
from podsched.cli.client import FAILED, fail, warn


def _texts(filenames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for filename in filenames:
        if filename == "-":
            yield "standard input", sys.stdin.read()
            continue
        path = Path(filename)
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
            if not files:
                fail(f"{filename}: no .yaml, .yml or .json file in this directory")
        else:
            files = [path]
        for file in files:
            try:
                yield str(file), file.read_text()
            except (OSError, UnicodeDecodeError) as exc:
                fail(f"{file}: {getattr(exc, 'strerror', None) or exc}")


def read_manifests(filenames: Sequence[str], namespace: str, *, strict: bool) -> list[AnyObject]:
    """Return the objects in files, directories or standard input; every mistake is reported before the
    exit.
    """
    objects: list[AnyObject] = []
    mistakes = 0
    for source, text in _texts(filenames):
        try:
            documents = load_documents(text)
        except ManifestError as exc:
            mistakes += 1
            print(f"error: {source}: {exc}", file=sys.stderr)
            continue
        for document in documents:
            try:
                decoded = from_manifest(document, strict=strict)
            except ManifestError as exc:
                mistakes += 1
                print(f"error: {source}: {exc}", file=sys.stderr)
                continue
            for warning in decoded.warnings:
                warn(f"{source}: {describe(document)}: {warning}")
            message = decoded.message
            if kind_of(message).namespaced and not message.metadata.namespace:
                message.metadata.namespace = namespace
            objects.append(message)
    if mistakes:
        raise typer.Exit(FAILED)
    if not objects:
        fail("no objects in the given files")
    return objects
