"""Tables of objects, as kubectl prints them."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.kinds import KINDS
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server.entries import Entry
from podsched.serve.server.rest.resources import GROUPS
from podsched.serve.server.rest.tables import Table
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

PODS = 10
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, where each row takes 0.7 of a round of the event loop.

    Made before the world, whose loop would have the real clocks otherwise.
    """
    now, happened = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)
    row = Table.row

    def slowly(table: Table, entry: Entry, revision: int = 0) -> dict[str, object]:
        nonlocal now
        now += 0.7 * ROUND
        happened.append("row")
        return row(table, entry, revision)

    monkeypatch.setattr(Table, "row", slowly)
    return happened


async def test_a_table_of_many_objects_keeps_no_other_task_waiting(
    rows: list[str], world: World
) -> None:
    await world.core.creator.create_many([pod(f"p{number}") for number in range(PODS)])

    async def other() -> None:
        while True:
            rows.append("other")
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    answer = await KubeClient(world.core).get("/api/v1/namespaces/default/pods", AS_TABLE)
    task.cancel()
    names = [row["object"]["metadata"]["name"] for row in answer.json["rows"]]
    assert names == [f"p{number}" for number in range(PODS)]
    assert max(len(found.split()) for found in " ".join(rows).split("other")) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_a_bookmark_has_a_row_for_any_kind(kind: str) -> None:
    resource = next(
        found for group in GROUPS.values() for found in group.values() if found.kind.name == kind
    )
    metadata = {"resourceVersion": "7"}
    table = Table(resource, {}).of_metadata({"metadata": metadata})
    assert table["metadata"] == table["rows"][0]["object"]["metadata"] == metadata
    assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
