"""The page's store, in JavaScript, keeps what the server's board sends."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from podsched.ask.web.board import Board
from support.examples import examples
from support.page_changes import TICKS, Browser, Changes
from support.page_script import Script

SEEN = """({
  nodes: Object.fromEntries([...store.nodes.values()].map((node) => [node.name,
    [store.zones[node.zone], store.shapes[node.shape], node.state, ...node.used]])),
  pending: store.rows("pending"), events: store.rows("events"), decisions: store.rows("decisions"),
  totals: store.totals, groups: store.groups, resources: store.resources,
})"""


def loaded(state: dict[str, Any]) -> Script:
    script = Script("store")
    script.do(
        "globalThis.store = new Store(); store.load(state)",
        state={"id": "x-0", "time": 0, "process": {}, **state},
    )
    return script


@given(TICKS)
@examples(30)
def test_the_store_applies_deltas_as_the_board_means_them(
    ticks: list[Changes],
) -> None:
    board = Board()
    board.delta()
    script = loaded(board.state())
    for tick in ticks:
        for change in tick:
            board.put(*change)
        script.do("store.apply(delta)", delta={"time": 0, **board.delta()})
    seen, expected = script.run(SEEN), Browser(board.state()).seen()
    for name in ("pending", "events", "decisions"):
        seen[name] = {row[0]: row for row in seen[name]}
        expected[name] = {key: list(row) for key, row in expected[name].items()}
    assert seen == expected


def test_pending_pods_come_by_priority_and_age() -> None:
    waits = (("d/new", 20, 0), ("d/old", 10, 0), ("d/vip", 30, 9))
    rows = [[key, since, "", "", priority, ""] for key, since, priority in waits]
    script = Script("store")
    script.do(
        "globalThis.store = new Store(); store.apply({time: 0, pending: {set: rows, gone: []}})",
        rows=rows,
    )
    assert [row[0] for row in script.run('store.rows("pending")')] == ["d/vip", "d/old", "d/new"]


def test_nodes_are_counted_by_a_flag_of_their_state() -> None:
    script = Script("store")
    script.do("""
        globalThis.store = new Store();
        const nodes = [[0, "a", 0, 0, 1], [1, "b", 0, 0, 3], [2, "c", 0, 0, 16]];
        store.apply({time: 0, zones: [""], shapes: [[1]], nodes});
    """)
    assert script.run("[1, 2, 4, 16].map((flag) => store.having(flag))") == [2, 1, 0, 1]


def test_the_share_of_a_resource_that_a_node_has_not_is_none() -> None:
    script = Script("store")
    script.do("""
        globalThis.store = new Store();
        const nodes = [[0, "n", 0, 0, 0, 1000]];
        store.apply({time: 0, zones: [""], shapes: [[4000, 0, 110]], nodes});
        globalThis.node = store.byName.get("n");
    """)
    assert script.run("[store.share(node, 0), store.share(node, 1), store.share(node, 2)]") == [
        0.25,
        None,
        0,
    ]


def test_an_hour_of_samples_is_kept() -> None:
    script = Script("store")
    script.do("""
        globalThis.store = new Store();
        for (let at = 0; at < 900; at++) store.apply({time: 0, samples: [[at]]});
    """)
    assert script.run("[store.samples.length, store.samples[0][0]]") == [720, 180]
