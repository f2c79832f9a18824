"""``sched wait``: wait until objects have reached a state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import typer

from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, report
from podsched.cli.json_path import TemplateError, as_text, query_of
from podsched.cli.options import LabelSelector, Timeout, seconds_or_fail
from podsched.cli.output import say
from podsched.cli.targets import Target, Targets, parse_targets, resolve
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound

#: Polling costs less than a watch for each object, and misses no deletion.
_PAUSE = 0.2

#: Returns whether an object (None: it does not exist) is in the wanted state.
Reached = Callable[[AnyObject | None], bool]


def parse_state(text: str) -> Reached:
    """Return the state that ``--for`` names; exit if it is malformed."""
    if text == "delete":
        return lambda obj: obj is None
    if text == "create":
        return lambda obj: obj is not None
    name, _, rest = text.partition("=")
    readers = {"condition": _condition, "jsonpath": _field}
    if name not in readers or not rest:
        options = "delete, create, condition=TYPE[=STATUS] or jsonpath={PATH}[=VALUE]"
        fail(f'--for: "{text}" is not {options}', USAGE)
    return readers[name](rest)


def _condition(text: str) -> Reached:
    name, _, status = text.partition("=")
    wanted = (name.lower(), (status or "true").lower())

    def reached(obj: Any) -> bool:
        conditions = getattr(getattr(obj, "status", None), "conditions", ())
        return any((c.type.lower(), c.status.lower()) == wanted for c in conditions)

    return reached


def _field(text: str) -> Reached:
    path, brace, value = text.partition("}")
    value = value.removeprefix("=")
    if not brace:
        path, _, value = text.partition("=")
    with fail_on(TemplateError, about="--for", code=USAGE):
        query = query_of(path + brace)

    def reached(obj: AnyObject | None) -> bool:
        found = [as_text(item) for item in query.findall(to_manifest(obj))] if obj else []
        return value in found if value else bool(found)

    return reached


def wait(
    targets: Targets,
    state: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="STATE",
            help="delete, create, condition=TYPE[=STATUS] or jsonpath={PATH}[=VALUE].",
        ),
    ],
    server: Server = "",
    namespace: Namespace = "default",
    selector: LabelSelector = "",
    timeout: Timeout = "30s",
) -> None:
    """Wait until objects have reached a state.

    Examples: sched wait pod/web-0 --for=condition=PodScheduled;
    sched wait pods -l app=web --for=jsonpath={.status.phase}=Running --timeout=1m
    """
    parse_state(state), seconds_or_fail("--timeout", timeout)  # exits if one is malformed

    async def work(client: ApiClient) -> bool:
        wanted = await resolve(client, parse_targets(targets, namespace), selector)
        if not wanted and state != "delete":
            fail("no matching resources found")
        waits = (wait_for(client, target, state, timeout) for target in wanted)
        return all(await asyncio.gather(*waits))

    if not with_client(server, work):
        raise typer.Exit(FAILED)


async def wait_for(client: ApiClient, target: Target, state: str, timeout: str) -> bool:
    """Wait until an object is in a state, and print it; return whether it is. Raises ClientError.

    ``timeout``: a duration; with 0s it looks at the object once.
    """
    reached, limit = parse_state(state), seconds_or_fail("--timeout", timeout)
    may_be_missing = state in ("delete", "create")
    try:
        async with asyncio.timeout(limit or None):
            while True:
                obj: AnyObject | None = None
                try:
                    obj = await target.get(client)
                except NotFound as exc:
                    if not may_be_missing:
                        report(exc)
                        return False
                if reached(obj):
                    done = {"delete": "deleted", "create": "created"}
                    say(f"{target} {done.get(state, 'condition met')}")
                    return True
                if not limit:
                    raise TimeoutError
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        say(f"error: timed out after {timeout} waiting for {state} on {target}", error=True)
        return False
