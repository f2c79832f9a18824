"""``sched wait``: wait until objects have reached a state."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail, fail_if_cut_short, fail_on, report
from podsched.cli.json_path import TemplateError, as_text, query_of
from podsched.cli.options import LabelSelector, Timeout, seconds_or_fail
from podsched.cli.output import say
from podsched.cli.targets import Target, Targets, parse_targets, resolve_with_uids
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound, Unavailable

#: Polling costs less than a watch for each object, and misses no deletion.
_PAUSE = 0.2

_CONDITION = re.compile("condition=([^=]+)(?:=(.*))?")
#: An "=" that belongs to a comparison in the path is not the one before the value.
_FIELD = re.compile(r"jsonpath=(\{.*?\}|[^{].*?)(?:(?<![=!<>])=(?!=)['\"]?(.*?)['\"]?)?", re.DOTALL)

#: Returns whether an object (None: it does not exist) is in the wanted state.
Reached = Callable[[AnyObject | None], bool]


def parse_state(text: str, uid: str = "") -> Reached:
    """Return the state that ``--for`` names, of the object with this uid; exit if it is malformed.

    ``uid``: "" for the first object that is seen.
    """
    if text == "delete":
        return _deleted({uid} if uid else set())
    if text == "create":
        return lambda obj: obj is not None
    if condition := _CONDITION.fullmatch(text):
        return _condition(condition[1], condition[2] or "True")
    field = _FIELD.fullmatch(text)
    if field is None or field[2] == "":
        options = "delete, create, condition=TYPE[=STATUS] or jsonpath={PATH}[=VALUE]"
        fail(f'--for: "{text}" is not {options}', USAGE)
    return _field(field[1], field[2])


def _deleted(uids: set[str]) -> Reached:
    """Return whether the first object seen is gone; another one may have its name already.

    ``uids``: those that have been seen.
    """

    def reached(obj: AnyObject | None) -> bool:
        uids.add(obj.metadata.uid if obj else "")
        return obj is None or len(uids) > 1

    return reached


def _condition(name: str, status: str) -> Reached:
    wanted = {"type": name.lower(), "status": status.lower()}

    def reached(obj: AnyObject | None) -> bool:
        if obj is None:
            return False
        state: Any = to_manifest(obj).get("status", {})
        for condition in state.get("conditions", ()):
            if all(str(condition.get(key, "")).lower() == wanted[key] for key in wanted):
                # An older spec than the present one may be what it is about.
                of = condition.get("observedGeneration") or state.get("observedGeneration")
                return not of or bool(of >= obj.metadata.generation)
        return False

    return reached


def _field(path: str, value: str | None) -> Reached:
    with fail_on(TemplateError, about="--for", code=USAGE):
        query = query_of(path)

    def reached(obj: AnyObject | None) -> bool:
        found = [as_text(item) for item in query.findall(to_manifest(obj))] if obj else []
        return bool(found) if value is None else value in found

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
        named = parse_targets(targets, namespace)
        return await wait_for_all(client, named, selector, state, timeout)

    with fail_if_cut_short():
        reached = with_client(server, work)
    if not reached:
        raise typer.Exit(FAILED)


async def wait_for_all(
    client: ApiClient, named: Sequence[Target], selector: str, state: str, timeout: str
) -> bool:
    """Wait until all selected objects are in a state; return whether they are."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds_or_fail("--timeout", timeout)
    wanted = await resolve_with_uids(client, named, selector)
    while not wanted and state == "create" and loop.time() < end:
        await asyncio.sleep(_PAUSE)
        wanted = await resolve_with_uids(client, named, selector)
    if not wanted and state != "delete":
        fail("no matching resources found")
    waits = (wait_for(client, target, state, timeout, uid) for target, uid in wanted)
    return all(await asyncio.gather(*waits))


async def wait_for(
    client: ApiClient, target: Target, state: str, timeout: str, uid: str = ""
) -> bool:
    """Wait until an object is in a state, and print it; return whether it is. Raises ClientError.

    Once an API server has answered, one may be missing for a while.
    ``timeout``: a duration; with 0s it looks at the object once. ``uid``: see ``parse_state``.
    """
    reached, limit = parse_state(state, uid), seconds_or_fail("--timeout", timeout)
    may_be_missing = state in ("delete", "create")
    answered = False
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
                except Unavailable:
                    if not answered:
                        raise
                    await asyncio.sleep(_PAUSE)
                    continue
                answered = True
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
