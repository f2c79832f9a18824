"""``sched get -o raw``: what is stored, byte by byte, even if nobody can decode it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import typer

from podsched.cli.client import with_client
from podsched.cli.errors import FAILED, USAGE, fail, report
from podsched.cli.targets import parse_targets
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound
from podsched.v1.api_pb2 import RawObject


def get_raw(targets: Sequence[str], server: str, namespace: str, *, alone: bool) -> None:
    """Print what is stored of the objects named; exit if one does not exist.

    ``alone``: without selectors and ``--watch``, which need objects that can be decoded.
    """
    if not alone:
        fail("-o raw shows single objects, without selectors and --watch", USAGE)

    async def work(client: ApiClient) -> bool:
        missing = False
        for target in parse_targets(targets):
            if not target.name:
                fail("-o raw shows single objects: name them", USAGE)
            scope = namespace if target.kind.namespaced else ""
            try:
                print(as_json(await client.get_raw(target.kind.name, target.name, scope)))
            except NotFound as exc:
                missing = True
                report("", exc)
        return missing

    if with_client(server, work):
        raise typer.Exit(FAILED)


def as_json(raw: RawObject) -> str:
    """Return it as JSON, the bytes as base64: they themselves would do a terminal no good."""
    shown = {
        "kind": raw.kind,
        "namespace": raw.namespace,
        "name": raw.name,
        "resourceVersion": str(raw.resource_version),
        "problem": raw.problem,
        "value": base64.b64encode(raw.value).decode(),
    }
    return json.dumps({key: value for key, value in shown.items() if value}, indent=2)
