"""The file of a recording."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from podsched.api.objects import ReplicaSet
from podsched.lab.replay.recording import (
    MOST_VALUES_OF_A_LINE,
    BadRecording,
    RecordingWriter,
    read_recording,
)
from podsched.serve.client.informer import EventType
from support.recordings import BEGAN, Script, a_node, a_pod


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.rec"


def test_what_was_written_is_read_back(file: Path) -> None:
    pod = a_pod("web")
    script = Script(file, a_node("n1"), podsched="1.0").added(1.5, pod).bound(2.0, pod, "n1")
    found = script.deleted(3.25, pod).ended(4.0)
    assert (found.began, found.header["podsched"], found.revision) == (BEGAN, "1.0", 10)
    assert [item.metadata.name for item in found.objects] == ["n1"]
    assert [(c.at, c.revision, c.type, c.kind, c.key) for c in found.changes] == [
        (1.5, 11, EventType.ADDED, "Pod", "default/web"),
        (2.0, 12, EventType.MODIFIED, "Pod", "default/web"),
        (3.25, 13, EventType.DELETED, "Pod", "default/web"),
    ]
    assert found.changes[1].item == pod
    assert found.changes[2].item.metadata.uid == "uid-web"
    assert (found.ended, found.seconds) == ("time is up", 4.0)


def test_environment_and_commands_are_not_written(file: Path) -> None:
    pod = a_pod("web")
    container = pod.spec.containers[0]
    container.env.add(name="PASSWORD", value="hunter2")
    container.command.append("--password=hunter2")
    pod.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] = "hunter2"
    Script(file, pod).added(1.0, pod).ended(2.0)
    assert b"hunter2" not in gzip.decompress(file.read_bytes())
    assert pod.spec.containers[0].env, "the object itself is as it was"


def test_environments_in_templates_of_pods_are_not_written(file: Path) -> None:
    owner = ReplicaSet()
    owner.metadata.name, owner.metadata.namespace = "web", "default"
    container = owner.spec.template.spec.containers.add(name="c")
    container.env.add(name="PASSWORD", value="hunter2")
    Script(file, owner).ended(2.0)
    written = gzip.decompress(file.read_bytes())
    assert b"ReplicaSet" in written
    assert b"hunter2" not in written


def test_a_recording_whose_writer_was_killed_is_read_up_to_there(file: Path) -> None:
    writer = RecordingWriter(file, {"time": BEGAN})
    writer.synced(5)
    writer.change(1.0, 6, EventType.ADDED, a_pod("one"))
    writer.flush()
    whole = file.read_bytes()
    writer.change(2.0, 7, EventType.ADDED, a_pod("two"))
    writer.flush()
    writer.abandon()
    for torn in (whole, file.read_bytes()[:-9]):
        file.write_bytes(torn)
        found = read_recording(file)
        assert [change.key for change in found.changes] == ["default/one"]
        assert found.ended == ""


def test_a_changed_byte_is_noticed_though_every_line_can_be_read(file: Path) -> None:
    Script(file, a_node("n1")).added(1.5, a_pod("web")).ended(4.0)
    content = bytearray(file.read_bytes())
    content[-8] ^= 1  # of the checksum
    file.write_bytes(content)
    with pytest.raises(BadRecording, match="line 6: the file is damaged: CRC check failed"):
        read_recording(file)


def test_a_changed_byte_in_the_middle_is_not_taken_for_the_end(file: Path) -> None:
    writer = RecordingWriter(file, {"time": BEGAN})
    writer.flush()
    whole = file.read_bytes()
    writer.synced(5)
    writer.close(0.0, "time is up")
    garbage = b"\xff" * len(file.read_bytes())
    file.write_bytes(whole + garbage)
    with pytest.raises(BadRecording, match="line 1: the file is damaged: Error -3"):
        read_recording(file)


def test_a_recording_behind_another_one_is_refused(file: Path) -> None:
    Script(file, a_node("n1")).added(1.5, a_pod("web")).ended(4.0)
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(BadRecording, match="line 6: another recording begins here"):
        read_recording(file)


def test_a_file_is_never_overwritten(file: Path) -> None:
    file.write_text("precious")
    with pytest.raises(FileExistsError):
        RecordingWriter(file, {"time": BEGAN})
    assert file.read_text() == "precious"


START = {"recording": 1, "time": 1.0}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "not a recording"),
        ([{"something": 1}], "not a recording"),
        ([{"recording": 9, "time": 1.0}], "version 9"),
        ([{"recording": 1}], "line 1: time: null is not a number"),
        ([{"recording": 1, "time": 1.0}, {"object": {"kind": "Teapot"}}], "line 2: kind: 'Teapot'"),
        ([{"recording": 1, "time": 1.0}, {"t": 1, "e": "X", "r": 1, "object": {}}], "line 2"),
        ([{"recording": 1, "time": 1.0}, []], "line 2: expected an object"),
        ([{"recording": 1, "time": 1e300}], "line 1: time: 1e\\+300 is not between 0 and"),
        ([START, {"t": 4e9, "end": ""}], "line 2: t: 4000000000.0 is not between 0 and 3456000"),
        ([START, {"t": -1, "end": ""}], "line 2: t: -1 is not between"),
        ([START, {"t": 10**400, "end": ""}], "line 2: t: 1000000000000000.* is not between"),
        ([START, {"t": True, "end": ""}], "line 2: t: true is not a number"),
        ([START, {"t": [1], "end": ""}], "line 2: t: \\[1\\] is not a number"),
        ([START, {"t": 1, "decision": 7}], "line 2: decision: 7 is not an object"),
        ([START, {"t": 1, "checkpoint": [1]}], "line 2: checkpoint: \\[1\\] is not an object"),
        (
            [START, {"t": 1, "checkpoint": {"term": [1]}}],
            "line 2: checkpoint: term: \\[1\\] is not a number",
        ),
        (
            [START, {"t": 1, "checkpoint": {"term": 1, "number": "7"}}],
            'line 2: checkpoint: number: "7" is not a number',
        ),
        ([START, {"t": 1, "e": "A", "r": 1}], "line 2: object is missing"),
        ([START, {"t": 1, "e": "A", "r": 1, "object": 7}], "line 2: object: 7 is not an object"),
        (
            [START, {"t": 1, "e": [], "r": 1, "object": NAMESPACE}],
            "line 2: e: \\[\\] is none of A, M, D",
        ),
        (
            [
                START,
                {"t": 1, "e": "A", "r": 7, "object": NAMESPACE},
                {"t": 1, "e": "M", "r": 6, "object": NAMESPACE},
            ],
            "line 3: r: 6 comes after 7",
        ),
        ([START | {"configuration": 7}], "line 1: configuration: 7 is not an object"),
        (
            [START, {"t": 1, "checkpoint": {"configuration": [7]}}],
            "line 2: configuration: \\[7\\] is not an object",
        ),
        ([START, {"synced": {}}], "line 2: synced: {} is not a number"),
        ([START, {"t": 1, "end": "", "r": 1.5}], "line 2: r: 1.5 is not a number of a revision"),
        ([START, {"object": {"kind": ["Pod"]}}], "line 2: kind: \\['Pod'\\] is not known"),
        (
            [START, {"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}}],
            "line 2: metadata.uid: pod a has none",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(
    file: Path, lines: list[object], told: str
) -> None:
    file.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    with pytest.raises(BadRecording, match=told):
        read_recording(file)


def test_a_file_that_is_not_gzip_is_refused(file: Path) -> None:
    file.write_text("kind: Pod\n")
    with pytest.raises(BadRecording, match="not a recording"):
        read_recording(file)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"t": 1e999, "end": ""}', "line 2: t: Infinity is not between"),
        (b'{"t": Infinity, "end": ""}', "line 2: Infinity is not a number"),
        (b"[" * 200_000, "line 2: nested too deeply"),
        (b'{"t": 1, "end": "\xff"}', "line 2: .*can't decode"),
        (b"[" + b"[]," * MOST_VALUES_OF_A_LINE + b"0]", "line 2: more than .* values"),
    ],
)
def test_a_line_that_no_recorder_writes_is_refused(file: Path, line: bytes, told: str) -> None:
    file.write_bytes(gzip.compress(json.dumps(START).encode() + b"\n" + line + b"\n", 1))
    with pytest.raises(BadRecording, match=told):
        read_recording(file)
