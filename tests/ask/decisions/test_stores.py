"""The latest frames are kept, within the bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from podsched.ask.decisions import stores
from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.stores import (
    PATTERN,
    SEGMENTS,
    DecisionLogError,
    DirectoryStore,
    MemoryStore,
    Store,
    read_segments,
    segment_paths,
)
from podsched.lib.files import FileTooLarge

FIRST = FrameWriter().facts({"replica": "r"}, 1.0)
FRAME = len(FrameWriter().rows([[1]], (1.0, 1.0), [b"1234"]))
BOUND = SEGMENTS * (len(FIRST) + 4 * FRAME)


def numbers(store: Store) -> list[int]:
    """The numbers that a store still has, in their order."""
    segments = reversed(list(store.segments()))
    return [frame.content()[0][0] for segment in segments for frame in segment[1:]]


def fill(store: Store, frames: int) -> None:
    for number in range(frames):
        store.append(FrameWriter().rows([[number % 10]], (1.0, 1.0), [b"1234"]))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DirectoryStore]:
    store = DirectoryStore(tmp_path / "log", BOUND, FIRST)
    yield store
    store.close()


def test_the_oldest_in_a_directory_go_when_the_bound_is_reached(
    directory: DirectoryStore, tmp_path: Path
) -> None:
    fill(directory, 4 * SEGMENTS + 3)
    paths = segment_paths(tmp_path / "log")
    assert len(paths) == SEGMENTS
    assert sum(path.stat().st_size for path in paths) <= BOUND
    kept = numbers(directory)
    assert kept == [number % 10 for number in range(4, 4 * SEGMENTS + 3)]


def test_a_large_log_has_more_segments_and_not_larger_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a reader has a whole segment in memory."""
    largest = len(FIRST) + 2 * FRAME
    monkeypatch.setattr(stores, "LARGEST", largest)
    store = DirectoryStore(tmp_path / "log", 4 * BOUND, FIRST)
    fill(store, 4 * SEGMENTS)
    store.close()
    paths = segment_paths(tmp_path / "log")
    assert len(paths) == 2 * SEGMENTS
    assert max(path.stat().st_size for path in paths) == largest


def test_the_oldest_in_memory_go_when_the_bound_is_reached() -> None:
    store = MemoryStore(3 * FRAME, FIRST)
    fill(store, 9)
    assert numbers(store) == [6, 7, 8]
    (segment,) = store.segments()
    assert segment[0].content() == {"replica": "r"}, "whose they are is still known"


def test_a_second_process_cannot_write_to_the_same_directory(
    directory: DirectoryStore, tmp_path: Path
) -> None:
    with pytest.raises(DecisionLogError, match="another process keeps its log there"):
        DirectoryStore(tmp_path / "log", BOUND, FIRST)


def test_a_process_goes_on_after_what_the_one_before_it_left_torn(tmp_path: Path) -> None:
    before = DirectoryStore(tmp_path, BOUND, FIRST)
    fill(before, 2)
    before.close()
    (path,) = segment_paths(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    store = DirectoryStore(tmp_path, BOUND, FIRST)
    fill(store, 1)
    assert [len(segment) for segment in read_segments(tmp_path)] == [2, 2]
    store.close()


@pytest.mark.parametrize("room", [0, 5])
def test_a_segment_for_which_there_is_no_room_is_begun_anew_with_the_facts(
    directory: DirectoryStore, tmp_path: Path, room: int
) -> None:
    soft, hard = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(OSError):
            fill(directory, 1)
    finally:
        setrlimit(RLIMIT_FSIZE, (soft, hard))
    assert not segment_paths(tmp_path / "log")
    fill(directory, 1)
    [[first, _]] = directory.segments()
    assert first.content() == {"replica": "r"}


def test_the_part_of_a_segment_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, BOUND, FIRST)
    fill(store, 2)
    store.close()
    (path,) = segment_paths(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(FIRST)] + b"x" + content[len(FIRST) + 1 :])
    told: list[str] = []
    assert [len(segment) for segment in read_segments(tmp_path, told.append)] == [1]
    assert told == [f"{path.name}: {2 * FRAME} of its bytes cannot be read"]


def test_a_directory_that_cannot_be_made_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DecisionLogError, match=r"--decision-log: .*file/log: Not a directory"):
        DirectoryStore(tmp_path / "file" / "log", BOUND, FIRST)


def test_a_segment_that_never_ends_is_refused(tmp_path: Path) -> None:
    (tmp_path / PATTERN.replace("*", "1")).symlink_to("/dev/zero")
    with pytest.raises(FileTooLarge):
        list(read_segments(tmp_path))
