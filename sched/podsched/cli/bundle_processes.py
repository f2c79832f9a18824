"""What ``sched debug bundle`` has of each process: its pages, and its log.

Processes on this machine are found in /proc: those of the same user whose command line names an
API server of the cluster. Their log is where their standard error goes, if that is a file.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podsched.cli.bundle_archive import MIB, Archive
from podsched.serve.client.channels import ClientOptions

#: Pages of the health server, and the files that they are packed as. A process has some of them.
_PAGES: Final = {
    "/metrics": "metrics.txt",
    "/readyz?verbose": "readyz.txt",
    "/livez?verbose": "livez.txt",
    "/statusz": "statusz.txt",
    "/flagz": "flags.txt",
    "/configz": "config.json",
    "/debug/cache": "cache-and-queue.txt",
    "/debug/pprof/goroutine?debug=2": "tasks.txt",
}
_OPTIONAL: Final = ("/configz", "/debug/cache", "/debug/pprof/goroutine?debug=2")
_TIMEOUT: Final = 5.0
_MOST_PAGE: Final = 16 * MIB
_MOST_LOG: Final = 4 * MIB
_MOST_LOGS: Final = 100
_COMMANDS: Final = ("apiserver", "scheduler", "agent")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the cluster; ``url``: of its health server, "" where it is not known."""

    name: str
    url: str
    log: Path | None = None


def processes_here(servers: Sequence[str]) -> list[Process]:
    """Return the processes of the cluster that run on this machine under this user."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            log = (folder / "fd" / "2").resolve()
        except OSError:
            continue  # it has ended
        process = process_of(words, int(folder.name), servers)
        if process is not None:
            found.append(Process(process.name, process.url, log if log.is_file() else None))
    return found


def process_of(words: Sequence[str], pid: int, servers: Sequence[str]) -> Process | None:
    """Return the process that a command line starts, if it is one of the cluster's."""
    start = words[:6]
    command = next((word for word in start if word in _COMMANDS), "")
    if not command or not any(word.endswith(("podsched", "sched")) for word in start):
        return None
    options = dict(_options(words))
    named = options.get("--listen" if command == "apiserver" else "--server", "")
    if not set(named.split(",")) & set(servers):
        return None
    address = options.get("--health-listen", "")
    scheme = "https" if "--tls-cert" in options else "http"
    known = address and not address.endswith(":0")
    return Process(f"{command}-{pid}", f"{scheme}://{address}" if known else "")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            yield name, value if equals else following


async def add_process(archive: Archive, process: Process, options: ClientOptions) -> None:
    """Add the pages of a process, as far as it has them."""
    if not process.url:
        archive.miss(process.name, "its health address is not known: name it with --health")
        return
    for path, file in _PAGES.items():
        try:
            text = await asyncio.to_thread(_read, process.url.rstrip("/") + path, options)
        except urllib.error.HTTPError as error:
            if path not in _OPTIONAL or error.code != 404:
                archive.miss(f"{process.name}{path}", f"HTTP {error.code}")
        except (OSError, ValueError) as error:
            archive.miss(process.name, f"{process.url}: {getattr(error, 'reason', error)}")
            return
        else:
            archive.reached = True
            archive.add(f"processes/{process.name}/{file}", text)


def _read(url: str, options: ClientOptions) -> str:
    """Return a page; a probe that fails is one, too. Raises OSError, ValueError."""
    if not url.startswith(("http://", "https://")):
        raise ValueError("not an http:// or https:// address")
    tls = None
    if url.startswith("https://"):
        tls = ssl.create_default_context(cafile=options.tls_ca or None)
        if options.tls_cert:
            tls.load_cert_chain(options.tls_cert, options.tls_key)
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT, context=tls) as answer:
            raw: bytes = answer.read(_MOST_PAGE)
    except urllib.error.HTTPError as error:
        if error.code != 500:
            raise
        raw = error.read(_MOST_PAGE)
    return raw.decode(errors="replace")


def add_logs(archive: Archive, paths: Sequence[Path]) -> None:
    """Add the ends of log files, and of those in directories."""
    files = []
    for path in dict.fromkeys(paths):
        files += sorted(path.glob("*.log*")) if path.is_dir() else [path]
    for path in list(dict.fromkeys(files))[:_MOST_LOGS]:
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MOST_LOG))
                text = file.read(_MOST_LOG).decode(errors="replace")
        except OSError as error:
            archive.miss(str(path), error.strerror or str(error))
            continue
        if size > _MOST_LOG:
            text = text.partition("\n")[2]
        archive.add(f"logs/{path.name}", text, keep_end=True)
    if len(files) > _MOST_LOGS:
        archive.miss("logs", f"{len(files) - _MOST_LOGS} of {len(files)} files left out")
