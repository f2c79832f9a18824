"""``sched events``: show events in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, cast

import typer

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Event, seconds_of_event
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import USAGE, fail
from podsched.cli.formats import Format, Printer
from podsched.cli.get import AllNamespaces, Selection, Watch, show
from podsched.cli.output import say
from podsched.cli.targets import Target, parse_targets
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.object_watch import ChangeType

_TYPES = ("Normal", "Warning")


def events(
    server: Server = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    subject: Annotated[
        str, typer.Option("--for", metavar="KIND/NAME", help="Show the events of one object.")
    ] = "",
    types: Annotated[
        str, typer.Option(metavar="TYPE[,...]", help="Show only Normal or Warning events.")
    ] = "",
    watch: Watch = False,
) -> None:
    """Show events, the latest at the end."""
    wanted = {name.strip().capitalize() for name in types.split(",") if name.strip()}
    if unknown := wanted.difference(_TYPES):
        fail(f"--types: {', '.join(sorted(unknown))} is neither Normal nor Warning", USAGE)

    if subject and "/" not in subject:
        fail(f'--for: "{subject}" is not KIND/NAME, such as pod/{subject}', USAGE)

    def of_types(items: Iterable[AnyObject]) -> list[Event]:
        found = (cast(Event, item) for item in items)
        return [event for event in found if not wanted or event.type in wanted]

    async def work(client: ApiClient) -> None:
        fields = parse_targets([subject], "")[0].event_selector if subject else ""
        selection = Selection("", fields)
        every = Target(KINDS["Event"], "", "" if all_namespaces else namespace)
        items, revision = await selection.all_of(client, every)
        shown = sorted(of_types(items), key=seconds_of_event)
        table = Format("table")
        printer = Printer(table, namespaces=all_namespaces)
        if shown:
            show(table, printer.text(shown, single=False))
        elif not watch:
            place = "" if all_namespaces else f" in {namespace} namespace"
            say(f"No events found{place}.", error=True)
        if watch:
            async for change in selection.changes(client, every, revision):
                found = of_types([change.object])
                # One that is deleted has expired: nothing has happened.
                if found and change.type is not ChangeType.DELETED:
                    show(table, printer.text(found, single=True))

    with_client(server, work)
