"""Frames are read as they were written, up to where a file is torn."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.decisions.frames import (
    MAX_PLAIN,
    FrameKind,
    FrameWriter,
    frames_in,
    pod_mark,
)

MARKS = [pod_mark("default", name) for name in ("a", "b")]


def frame(*numbers: int) -> bytes:
    rows = [[number, "default", "ab"[number % 2]] for number in numbers]
    return FrameWriter().rows(rows, (1.0, 2.0), [MARKS[number % 2] for number in numbers])


def test_a_frame_tells_what_is_inside_without_being_unpacked() -> None:
    (found,) = frames_in(frame(7, 5))
    assert (found.kind, found.rows) == (FrameKind.ROWS, 2)
    assert (found.began, found.ended) == (1.0, 2.0)
    assert found.may_have(pod_mark("default", "b"))
    assert not found.may_have(pod_mark("default", "c"))
    assert found.content() == [[7, "default", "b"], [5, "default", "b"]]


def test_a_file_of_frames_is_lines_of_json_to_other_programs() -> None:
    data = FrameWriter().facts({"version": 1}, 1.0) + frame(1, 2) + frame(3)
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    lines = [json.loads(line) for line in reader.read().splitlines()]
    assert [len(line) for line in lines] == [1, 2, 1]


@given(st.integers(0, 400))
def test_a_torn_file_is_read_up_to_its_last_whole_frame(cut: int) -> None:
    parts = [frame(1), frame(2), frame(3)]
    data = b"".join(parts)[:cut]
    whole = sum(len(b"".join(parts[: n + 1])) <= cut for n in range(3))
    assert [f.content()[0][0] for f in frames_in(data)] == [1, 2, 3][:whole]


@given(st.binary(max_size=200))
def test_garbage_after_a_frame_raises_at_most_a_value_error(garbage: bytes) -> None:
    first, *others = frames_in(frame(1) + garbage)
    assert first.content() == [[1, "default", "b"]]
    for found in others:
        with suppress(ValueError):
            found.content()


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_changed_bit_of_the_content_is_noticed_or_changes_nothing(place: int, bit: int) -> None:
    (found,) = frames_in(frame(*range(20)))
    data = bytearray(found.data)
    data[place % len(data)] ^= 1 << bit
    with suppress(ValueError):
        assert replace(found, data=bytes(data)).content() == found.content()


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_frame_with_a_changed_bit_in_its_index_is_left_out(place: int, bit: int) -> None:
    damaged = bytearray(frame(*range(20)))
    (found,) = frames_in(damaged)
    index = found.size - len(found.data)
    damaged[place % index] ^= 1 << bit
    assert found not in list(frames_in(damaged + frame(1)))
    assert all(other.content() == [[1, "default", "b"]] for other in frames_in(damaged + frame(1)))


def test_an_index_without_a_checksum_is_read_as_earlier_versions_wrote_it() -> None:
    former = bytearray(frame(1))
    former[13:16] = bytes(3)
    (found,) = frames_in(former)
    assert found.content() == [[1, "default", "b"]]


def test_a_frame_that_claims_to_be_huge_once_it_is_unpacked_is_refused_by_its_head() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(MAX_PLAIN + 1))
    (found,) = frames_in(frame(1))
    with pytest.raises(ValueError, match="bytes once unpacked"):
        replace(found, data=bomb).content()


def test_a_frame_that_does_not_say_how_large_it_is_is_unpacked_up_to_the_bound() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(MAX_PLAIN + 1))
    (found,) = frames_in(frame(1))
    with pytest.raises(ValueError, match="decompress"):
        replace(found, data=bomb).content()
