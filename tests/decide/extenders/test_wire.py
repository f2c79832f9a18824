"""What is said to extenders and read from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podsched.decide.extenders import wire
from podsched.decide.extenders.wire import ExtenderError, MetaVictims, NodeTexts
from podsched.framework.plugin import Victims
from support.engine_pods import pod_info
from support.engine_world import node, pod


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_filter_arguments_are_what_go_writes_of_extender_args() -> None:
    texts = NodeTexts().of([node("n1"), node("n2", labels={"zone": "a"})])
    args = json.loads(wire.extender_args(pod("p"), texts, None))
    assert list(args) == ["Pod", "Nodes", "NodeNames"]
    assert args["Pod"]["kind"] == "Pod"
    assert args["Pod"]["metadata"]["uid"] == "uid-p"
    assert [item["metadata"]["name"] for item in args["Nodes"]["items"]] == ["n1", "n2"]
    assert args["Nodes"]["items"][1]["metadata"]["labels"] == {"zone": "a"}
    assert args["NodeNames"] is None


def test_an_extender_that_caches_nodes_gets_their_names_alone() -> None:
    args = json.loads(wire.extender_args(pod("p"), None, ["n1", "n2"]))
    assert (args["Nodes"], args["NodeNames"]) == (None, ["n1", "n2"])


def test_a_node_is_written_anew_when_it_has_changed() -> None:
    texts, before, after = NodeTexts(), node("n1"), node("n1", labels={"zone": "b"})
    (first,) = texts.of([before])
    assert texts.of([before])[0] is first
    assert json.loads(texts.of([after])[0])["metadata"]["labels"] == {"zone": "b"}


@pytest.mark.parametrize("by_uid", [True, False])
def test_victims_are_named_to_extenders_that_cache_nodes_and_sent_to_others(by_uid: bool) -> None:
    victims = {"n1": Victims((pod_info("low"),), 1)}
    args = json.loads(wire.preemption_args(pod("p"), victims, by_uid=by_uid))
    told, silent = "NodeNameToVictims", "NodeNameToMetaVictims"
    if by_uid:
        told, silent = silent, told
        assert args[told]["n1"]["Pods"] == [{"UID": "uid-low"}]
    else:
        assert args[told]["n1"]["Pods"][0]["metadata"]["name"] == "low"
    assert args[told]["n1"]["NumPDBViolations"] == 1
    assert args[silent] is None


def test_binding_arguments_name_the_pod_and_the_node() -> None:
    assert json.loads(wire.binding_args(pod_info("p"), "n1")) == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": "uid-p",
        "Node": "n1",
    }


def test_names_count_before_nodes_for_an_extender_that_caches_nodes() -> None:
    nodes = {"items": [{"metadata": {"name": "n1"}}]}
    both = body({"NodeNames": ["n2"], "Nodes": nodes, "FailedNodes": {"n1": "hot"}})
    assert wire.read_filter_result(both, by_name=True).passed == ("n2",)
    assert wire.read_filter_result(both, by_name=False).passed == ("n1",)
    assert wire.read_filter_result(body({"Nodes": nodes}), by_name=True).passed == ("n1",)
    assert wire.read_filter_result(both, by_name=True).failed == {"n1": "hot"}


def test_upper_and_lower_case_are_the_same_in_answers() -> None:
    answer = wire.read_filter_result(
        body({"nodenames": ["n1"], "failedAndUnresolvableNodes": {"n2": "gone"}}), by_name=True
    )
    assert answer.passed == ("n1",)
    assert answer.unresolvable == {"n2": "gone"}
    assert wire.read_priorities(body([{"host": "n1", "score": 7}])) == [("n1", 7)]


def test_an_answer_that_says_nothing_of_nodes_leaves_none() -> None:
    assert wire.read_filter_result(b"{}", by_name=True).passed == ()


def test_an_error_that_the_extender_tells_of_is_one() -> None:
    with pytest.raises(ExtenderError, match="no licence"):
        wire.read_filter_result(body({"Error": "no licence"}), by_name=True)
    with pytest.raises(ExtenderError, match="taken"):
        wire.read_binding_result(body({"Error": "taken"}))
    wire.read_binding_result(body({"Error": ""}))


def test_preemption_results_are_read_by_uid() -> None:
    meta = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 2}, "n2": None}
    assert wire.read_preemption_result(body({"NodeNameToMetaVictims": meta})) == {
        "n1": MetaVictims(("a",), 2),
        "n2": MetaVictims(()),
    }


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        body([1]),
        body({"NodeNames": "n1"}),
        body({"NodeNames": [1]}),
        body({"Nodes": {"items": [3]}}),
        body({"NodeNames": [], "FailedNodes": {"n1": 4}}),
        body({"Error": 5}),
        b'{"NodeNames": [], "FailedNodes": {"n1": "half of a pair: \\ud800"}}',
        b'{"NodeNames": [], "FailedNodes": {"n1": "the same as bytes: \xed\xa0\x80"}}',
    ],
)
def test_nonsense_for_a_filter_result_is_an_error_and_nothing_else(answer: bytes) -> None:
    with pytest.raises(ExtenderError):
        wire.read_filter_result(answer, by_name=True)


@pytest.mark.parametrize(
    "answer",
    [
        body({"Host": "n1"}),
        body([{"Host": "n1", "Score": 1.5}]),
        body([{"Host": "n1", "Score": True}]),
        body([{"Host": "n1", "Score": 2**63}]),
    ],
)
def test_nonsense_for_priorities_is_an_error(answer: bytes) -> None:
    with pytest.raises(ExtenderError):
        wire.read_priorities(answer)


def test_a_whole_surrogate_pair_is_text() -> None:
    answer = wire.read_filter_result(b'{"FailedNodes": {"n1": "\\ud83d\\ude00"}}', by_name=True)
    assert answer.failed == {"n1": "\U0001f600"}
