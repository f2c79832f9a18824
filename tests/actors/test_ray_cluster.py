"""Joining Ray needs a Ray node on this machine."""

from __future__ import annotations

from pathlib import Path

from podsched.actors.ray_cluster import has_ray_node

LINE = "ffff9f1c: 00000002 00000000 00010000 0001 01 32215 {}\n"


def listening(folder: Path, *paths: Path) -> Path:
    """The kernel's list of sockets, as /proc/net/unix has it."""
    table = folder / "unix"
    heading = "Num       RefCount Protocol Flags    Type St Inode Path\n"
    unnamed = LINE.format("").rstrip() + "\n"
    table.write_text(heading + unnamed + "".join(LINE.format(path) for path in paths))
    return table


def test_a_ray_node_is_found_by_its_socket(tmp_path: Path) -> None:
    socket = tmp_path / "session_1" / "sockets" / "raylet"
    assert not has_ray_node(listening(tmp_path))
    assert not has_ray_node(listening(tmp_path, socket)), "of another file system"
    socket.parent.mkdir(parents=True)
    socket.touch()
    assert has_ray_node(listening(tmp_path, tmp_path / "other", socket))


def test_where_the_kernel_does_not_tell_it_is_tried(tmp_path: Path) -> None:
    assert has_ray_node(tmp_path / "missing")
