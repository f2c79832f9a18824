"""Creates a private temporary directory for each run, and removes those of runs that were killed.

    <temporary folder>/podsched-<uid>/      owned by this user, mode 0700, not a symbolic link
        <name>-xxxxxxxx/                    the directory of one run, locked by its process

All users can write to the temporary folder. Some programs, such as Ray, make the directories that
they are given accessible to all users; the parent's mode keeps other users out nevertheless. A run
that was killed leaves its directory behind, and the next run removes it. A lock (flock) shows that
a run is alive, because the kernel releases it when the process ends. A process id in a file would
not do: it may belong to another process by now, or to another container.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


class UnsafeDirectory(OSError):
    """The parent directory is not owned by this user, or is accessible to others."""


class RunDirectory:
    """The directory of this run; it exists until ``remove``.

    If the process is killed before, the next run of this user removes it.
    """

    def __init__(self, name: str, root: Path | None = None) -> None:
        """Create the directory, and remove those that killed runs have left behind.

        root: the temporary folder. Raises UnsafeDirectory if another user owns the parent, may
        enter it, or has made it a link; OSError if the directory cannot be created.
        """
        parent = _own_parent(root or Path(tempfile.gettempdir()))
        with _locked_parent(parent):
            _remove_leftovers(parent)
            self.path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def clear(self) -> None:
        """Remove everything in the directory."""
        for entry in os.scandir(self.path):
            _remove(Path(entry.path))

    def remove(self) -> None:
        """Remove the directory with everything in it."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def files_of_running(name: str, file: str) -> list[Path]:
    """Return the paths of a file in the directories of this user's live runs, newest run first.

    name: of the runs; file: the name of the file in each directory.
    """
    parent = Path(tempfile.gettempdir()) / f"podsched-{os.getuid()}"
    try:
        found = parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return []
        runs = [run for run in parent.glob(f"{name}-*") if _in_use(str(run))]
        runs.sort(key=lambda run: run.stat().st_mtime, reverse=True)
        return [path for run in runs if (path := run / file).is_file()]
    except OSError:
        return []


def _own_parent(root: Path) -> Path:
    """Return the parent directory for all runs of this user, creating it if it is missing."""
    path = root / f"podsched-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeDirectory(f"{path} is not a directory: remove it, or set TMPDIR")
    if found.st_uid != os.getuid():
        raise UnsafeDirectory(f"{path} belongs to another user: remove it, or set TMPDIR")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeDirectory(f"{path} is open to other users: remove it, or set TMPDIR")
    return path


@contextlib.contextmanager
def _locked_parent(parent: Path) -> Iterator[None]:
    """Hold a lock on the parent within the block.

    So another process cannot mistake a new directory, which is not locked yet, for a leftover.
    """
    handle = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove_leftovers(parent: Path) -> None:
    for entry in os.scandir(parent):
        if entry.is_dir(follow_symlinks=False) and not _in_use(entry.path):
            _remove(Path(entry.path))


def _in_use(path: str) -> bool:
    """Return whether the process of a run's directory is alive, or may be."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _remove(path: Path) -> None:
    """Remove a file, link or directory; no error if another process removes it meanwhile."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        # rmtree does not follow links.
        shutil.rmtree(path, ignore_errors=True)
