"""What the page's modules compute, in a JavaScript engine without a browser."""

from __future__ import annotations

import re

import pytest

from podsched.ask.web.rows import CORDONED, DELETED, HOLLOW, NOT_READY, TAINTED
from support.page_script import STATIC, Script


@pytest.fixture(scope="module")
def heat() -> Script:
    script = Script("format", "store", "heat")
    script.do("""
        globalThis.store = new Store();
        const nodes = Array.from({length: 25}, (_, id) => [id, `node-${id}`, id % 2, 0, 0]);
        store.apply({time: 0, zones: ["a", "b"], shapes: [[1000]], nodes});
        globalThis.placed = layout(store, 220, 400);
        globalThis.name = (node) => node && node.name;
    """)
    return script


def test_the_flags_of_a_nodes_state_are_the_servers() -> None:
    found = Script("store").run("[NOT_READY, CORDONED, TAINTED, DELETED, HOLLOW]")
    assert found == [NOT_READY, CORDONED, TAINTED, DELETED, HOLLOW]


def test_each_zone_is_a_block_of_cells_in_the_order_of_names(heat: Script) -> None:
    blocks = heat.run("placed.blocks.map((b) => [b.zone, b.rows, b.nodes.length, b.nodes[1].name])")
    assert blocks == [["a", 2, 13, "node-2"], ["b", 2, 12, "node-3"]]


def test_a_point_and_the_place_of_its_node_agree(heat: Script) -> None:
    assert heat.run("""[...store.nodes.values()].every((node) => {
        const place = placeOf(placed, node);
        return nodeAt(placed, place.x + 1, place.y + 1) === node;
    })""")
    assert heat.run("nodeAt(placed, 1, 1)") is None, "the label"
    assert heat.run("nodeAt(placed, 219, placed.height - 1)") is None, "past the last node"


def test_arrows_reach_every_node_and_stop_at_the_ends(heat: Script) -> None:
    walked = heat.run("""(() => {
        let node = step(placed, null, "ArrowRight"), seen = new Set();
        for (let i = 0; i < 40; i++) {
            seen.add(node.name);
            node = step(placed, node, "ArrowRight");
        }
        return [seen.size, node.name];
    })()""")
    assert walked == [25, "node-23"]
    heat.do("globalThis.first = placed.blocks[0].nodes[0]")
    downs = heat.run("""(() => {
        const names = [first.name];
        let node = first;
        for (let i = 0; i < 5; i++) names.push((node = step(placed, node, "ArrowDown")).name);
        return names;
    })()""")
    assert downs == ["node-0", "node-20", "node-1", "node-21", "node-21", "node-21"]
    assert heat.run('name(step(placed, first, "ArrowUp"))') == "node-0"


def test_a_few_nodes_are_named_where_there_is_room() -> None:
    script = Script("format", "store", "heat")
    script.do("""
        globalThis.store = new Store();
        const nodes = Array.from({length: 5}, (_, id) => [id, `node-${id}`, 0, 0, 0]);
        store.apply({time: 0, zones: [""], shapes: [[1000]], nodes});
        globalThis.placed = layout(store, 700, 420);
    """)
    assert script.run("[placed.named, placed.perRow, placed.wide]") == [True, 4, 175]
    assert script.run("""[...store.nodes.values()].every((node) => {
        const place = placeOf(placed, node);
        return nodeAt(placed, place.x + 170, place.y + 20) === node;
    })""")
    assert script.run("layout(store, 700, 60).named") is False


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("node-0001", "node-0001"),
        ("ip-10-0-12-34.internal", "ip-10…rnal"),
        ("0123456789a", "01234…789a"),
    ],
)
def test_both_ends_of_a_long_name_are_shown(name: str, shown: str) -> None:
    assert Script("format", "store", "heat").run(f'shortened("{name}", 10)') == shown


def test_a_name_is_written_in_the_colour_that_can_be_read() -> None:
    script = Script("format", "store", "heat")
    colours = [
        script.run(f'readable("{ground}", "#18212b", "#ffffff")')
        for ground in ("#eef2f4", "#033543")
    ]
    assert colours == ["#18212b", "#ffffff"]


def test_five_thousand_nodes_fit_a_desk_and_a_phone() -> None:
    script = Script("format", "store", "heat")
    script.do("""
        globalThis.store = new Store();
        const nodes = Array.from({length: 5000}, (_, id) => [id, `node-${id}`, id % 4, 0, 0]);
        store.apply({time: 0, zones: ["a", "b", "c", "d"], shapes: [[1]], nodes});
    """)
    wide = script.run("(({cell, height}) => ({cell, height}))(layout(store, 1000, 420))")
    narrow = script.run("(({cell, height}) => ({cell, height}))(layout(store, 340, 420))")
    assert wide["height"] <= 420 and wide["cell"] >= 7
    assert narrow["height"] <= 700 and narrow["cell"] == 5


def test_the_heat_scale_reaches_its_ends_only_at_the_ends() -> None:
    script = Script("format", "store", "heat")
    script.do("globalThis.theme = {ground: 'none', steps: [0,1,2,3,4,5,6,7,8,9,10].map(String)}")
    colours = script.run("[0, 0.02, 0.5, 0.94, 1, 1.5, NaN].map((share) => colour(theme, share))")
    assert colours == ["0", "0", "5", "9", "10", "10", "none"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient cpu. "
            "still not schedulable, preemption: 0/5 nodes are available: "
            "5 Preemption is not helpful for scheduling.",
            [0, 5, [[4, "Insufficient cpu"], [1, "node(s) had untolerated taint(s)"]]],
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod affinity rules, 1 Too many pods.",
            [0, 2, [[2, "node(s) didn't match pod affinity rules"], [1, "Too many pods"]]],
        ),
        ("no nodes available to schedule pods", None),
    ],
)
def test_the_reasons_of_a_condition_are_counted(message: str, expected: list[object]) -> None:
    assert Script("format").run("unavailable(message)", message=message) == expected


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("percent(0.997)", "99 %"),
        ("percent(1)", "100 %"),
        ("percent(0.002)", "<1 %"),
        ("percent(NaN)", "–"),
        ("count(1234567)", "1,234,567"),
        ("amount('cpu', 0)", "0"),
        ("amount('cpu', 250)", "250m"),
        ("amount('cpu', 1500)", "1.5"),
        ("amount('cpu', 10000)", "10"),
        ("amount('cpu', 27250001)", "27,250.001"),
        ("amount('cpu', 4000)", "4"),
        ("amount('memory', 512)", "512 MiB"),
        ("amount('memory', 32768)", "32 GiB"),
        ("amount('example.com/gpu', 8)", "8"),
        ("age(59)", "59s"),
        ("age(7300)", "2h"),
        ("milliseconds(0.123)", "0.12 ms"),
        ("milliseconds(1500)", "1.5 s"),
        ("nameOf('scheduler-0_ab12cd34')", "scheduler-0"),
    ],
)
def test_numbers_read_well(expression: str, text: str) -> None:
    assert Script("format").run(expression) == text


def test_the_axis_of_a_chart_holds_its_values() -> None:
    script = Script("format", "chart")
    assert script.run("linearTicks(0)") == {"low": 0, "high": 2, "ticks": [0, 1, 2]}
    assert script.run("linearTicks(730)")["high"] == 1000
    assert all(script.run("linearTicks(most).high >= most", most=m) for m in (0.1, 1, 9, 99, 12345))
    assert script.run("logTicks(2, 300)") == {"low": 1, "high": 1000, "ticks": [1, 10, 100, 1000]}


def test_terms_are_parts_of_the_time_that_is_shown() -> None:
    leadership = {"replicas": [["a_00000001", "gone", 0, ""], ["b_00000002", "leading", 9, ""]]}
    terms = [["a_00000001", 7, 5000, 8200], ["b_00000002", 9, 8200, 0], ["c_00000003", 3, 1, 2]]
    lanes = Script("format", "timeline").run(
        "lanes(leadership, terms, 10000, 3600)", leadership=leadership, terms=terms
    )
    assert [lane["name"] for lane in lanes] == ["a", "b"], "c led longer than an hour ago"
    assert [(t["from"], t["to"]) for lane in lanes for t in lane["terms"]] == [(0, 0.5), (0.5, 1)]


def test_the_funnel_has_the_steps_that_reject_nodes() -> None:
    explanation = {
        "funnel": [
            {"plugin": "NodeName", "before": 9, "after": 9},
            {"plugin": "NodePorts", "skipped": True, "before": 9, "after": 9},
            {
                "plugin": "NodeResourcesFit",
                "before": 9,
                "rejected": 9,
                "reasons": [{"reason": "Insufficient cpu", "nodes": 9}],
            },
        ]
    }
    assert Script("format", "explain").run("steps(found)", found=explanation) == [
        {
            "plugin": "NodeResourcesFit",
            "before": 9,
            "after": 0,
            "rejected": 9,
            "reasons": [[9, "Insufficient cpu"]],
        }
    ]


def test_why_a_pod_waited_is_no_longer_told_when_it_has_a_node() -> None:
    script = Script("dom", "format", "store", "panels", "explain", "detail")
    script.do("""
        const element = () => ({
            append() {}, setAttribute() {}, addEventListener() {}, replaceChildren() {},
            focus() {}, querySelectorAll: () => [], contains: () => false, style: {},
            classList: { add() {}, remove() {} },
        });
        globalThis.document = { createElement: element, getElementById: element };
        globalThis.matchMedia = () => ({ matches: false });
        const none = { conditions: [], events: [], gates: [], claims: [], labels: {} };
        globalThis.pod = { key: "default/a", created: 1, node: "", requests: {}, ...none };
        const explanation = { message: "0/3 nodes" };
        const json = async (path) => (path.startsWith("/api/explain") ? explanation : pod);
        const rights = () => ({ explain: true });
        globalThis.detail = new Detail(element(), { json }, new Store(), rights, () => {});
        detail.open("pod", "default/a");
    """)
    script.settle()
    assert script.run("detail.why.found") == {"message": "0/3 nodes"}
    script.do('pod.node = "n1"; detail.refresh()')
    script.settle()
    assert script.run("detail.why") is None


def test_a_line_about_a_group_says_so() -> None:
    script = Script("format", "store", "dom", "panels")
    keys = ["PodGroup default/train", "default/train"]
    assert script.run("keys.map(groupOf)", keys=keys) == ["default/train", ""]
    policies = ["gang of at least 4", "basic", ""]
    assert script.run("policies.map(policied)", policies=policies) == [
        "gang of at least 4",
        "basic group",
        "group",
    ]
    assert script.run("withNodes(1200, 10000)") == "1,200 of 10,000 with a node"


@pytest.mark.parametrize(
    ("state", "message", "text"),
    [
        ("Waiting for members", "3 of 6 are there", "Waiting for members: 3 of 6 are there"),
        ("Waiting for its PodGroup", "", "Waiting for its PodGroup"),
        (
            "Scheduled",
            "0/6 nodes are available: 6 Insufficient cpu.",
            "others wait: 6 Insufficient cpu.",
        ),
    ],
)
def test_what_a_group_waits_for_is_said(state: str, message: str, text: str) -> None:
    script = Script("format", "store", "dom", "panels")
    assert script.run("said(state, message)", state=state, message=message) == text


def test_an_event_of_the_stream_is_taken_apart() -> None:
    text = 'event: reset\nid: ab-7\ndata: {"a":"b: c"}'
    found = Script("stream").run("parseEvent(text)", text=text)
    assert found == {"event": "reset", "id": "ab-7", "data": '{"a":"b: c"}'}


def test_nothing_in_the_page_is_from_elsewhere_or_made_of_markup_in_strings() -> None:
    for file in STATIC.iterdir():
        text = file.read_text()
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name
        assert "innerHTML" not in text and "eval(" not in text, file.name
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?! type=\"module\" src)|<style| style=| on\w+=", page)


def test_what_labels_something_is_there() -> None:
    page = (STATIC / "index.html").read_text()
    ids = set(re.findall(r' id="([^"]+)"', page)) | {"detail-title"}
    assert set(re.findall(r'aria-labelledby="([^"]+)"', page)) <= ids
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


def test_admission_to_a_queue_is_told_in_lines() -> None:
    found = {
        "localQueue": "default/a",
        "clusterQueue": "team",
        "ahead": 3,
        "aheadAdmissible": 1,
        "first": ["default/x"],
        "nodes": "room for all of it now",
        "changes": ["priority 6"],
    }
    assert Script("format", "explain").run("admissionRows(found)", found=found) == [
        ["Queue", "default/a, ClusterQueue team"],
        ["Ahead", "3, of which 1 would be admitted first: default/x"],
        ["Nodes", "room for all of it now"],
        ["Would help", "priority 6"],
    ]


def test_a_queue_that_leads_to_no_cluster_queue_is_told_alone() -> None:
    rows = Script("format", "explain").run(
        "admissionRows(found)", found={"localQueue": "default/a"}
    )
    assert rows == [["Queue", "default/a"]]
    assert Script("format", "explain").run("admissionRows(found)", found={}) == []


def test_one_of_a_thing_is_not_in_the_plural() -> None:
    script = Script("format")
    assert script.run('[counted(1, "pod"), counted(0, "pod"), counted(1200, "pod")]') == [
        "1 pod",
        "0 pods",
        "1,200 pods",
    ]
