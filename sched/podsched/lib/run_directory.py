"""Directories of one run below the temporary folder, which other users cannot enter.

    <temporary folder>/podsched-<user>/     ours alone: mode 0700, not a link
        <name>-xxxxxxxx/                    one run's, locked by its process

The temporary folder belongs to everyone. Some programs, Ray among them, open the directories that
they are given to the world: the parent keeps the world out whatever they do. A run that was killed
leaves its directory behind; the next one removes it. Whether a run still lives is told by a lock,
which the kernel releases, and not by a process ID, which may be another's by now or of another
container.
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
    """What is to be the parent is not ours alone."""


class RunDirectory:
    """A directory that exists until ``remove``, or the end of the process and the next start."""

    def __init__(self, name: str, root: Path | None = None) -> None:
        """Make it, and remove those that dead runs have left behind.

        Raises:
            UnsafeDirectory: somebody else owns the parent, may enter it, or made it a link.
            OSError: it cannot be made.
        """
        parent = _own_parent(root or Path(tempfile.gettempdir()))
        with _locked_parent(parent):
            _remove_leftovers(parent)
            self.path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def clear(self) -> None:
        """Remove all that is in it."""
        for entry in os.scandir(self.path):
            _remove(Path(entry.path))

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def files_of_running(name: str, file: str, root: Path | None = None) -> list[Path]:
    """Return this file of each of this user's runs of a name that live, the newest run first."""
    parent = (root or Path(tempfile.gettempdir())) / f"podsched-{os.getuid()}"
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
    """Return the directory for all runs of this user, made if it is missing."""
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
    """Let no other process look for leftovers between a directory's making and its locking."""
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
    """Return whether its process lives; also where that cannot be found out."""
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
    """Remove a file, a link or a directory; what another removes meanwhile is gone as well."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        # rmtree does not follow links.
        shutil.rmtree(path, ignore_errors=True)
