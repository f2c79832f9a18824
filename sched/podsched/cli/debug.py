"""``sched debug bundle``: collect data about a cluster in one archive."""

from __future__ import annotations

import asyncio
import io
import json
import os
import platform
import re
import ssl
import sys
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import BadStatusLine, HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlunsplit

import typer

from podsched import __version__
from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.private_fields import without_private_fields
from podsched.app.replica_lease import DEFAULT_LOCK
from podsched.cli.client import ServerFlags, client_options, endpoints, open_client
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.output import say
from podsched.cli.progress import progress_bar
from podsched.cli.status import collect
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError
from podsched.lib.network import http_url
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError
from podsched.telemetry.logs import MASK, masked

app = command_group("Collect data for a bug report.")


@app.callback()
def _debug() -> None:
    """Make Typer treat this as a group although it has only one command."""


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    health: list[str] | None = flag(None, "URL")
    """Health address of a process that would not be found; repeatable."""
    logs: list[Path] | None = flag(None, "FILE|DIR")
    """Log file, or directory of them; repeatable."""
    most: int = flag(64, "MIB", names="--max-size", min=1, max=4096)
    """Max size of all files together, uncompressed."""


@app.command(cls=Command)
@takes_flags
def bundle(
    given: _Flags,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="New file. Default: podsched-debug-TIME.tar.gz."),
    ] = None,
) -> None:
    """Pack versions, configuration, status, metrics, logs and dumps of all processes into FILE.

    Replicas are found through the API server. Other processes and their logs
    are found if they run on this machine under the same user. Passwords,
    tokens, keys, and environment and arguments of containers are left out.
    Items that could not be collected are listed in report.txt and at the end.
    """
    path = file or Path(time.strftime("podsched-debug-%Y%m%d-%H%M%S.tar.gz"))
    if path.exists():
        fail(f"{path}: the file exists", USAGE)
    for log in given.logs or ():
        if not log.is_dir():
            file_or_fail("--logs", log)
    archive = Archive(given.most * MIB)
    try:
        asyncio.run(_collect(archive, given.server, given.health or [], given.logs or []))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    with fail_on(OSError, about=path):
        size = archive.write(path)
    for line in archive.missing:
        say(f"warning: {line}", error=True)
    say(f"Wrote {len(archive.texts)} files, {size:,} bytes, to {path}")
    if not archive.reached:
        fail("no process could be reached: the archive has only what is on this machine", FAILED)


async def _collect(archive: Archive, server: str, health: list[str], logs: list[Path]) -> None:
    addresses, options = endpoints(server), client_options()
    add_this_machine(archive)
    found = [Process(f"named-{number}", url) for number, url in enumerate(health)]
    found += processes_here(addresses)
    try:
        async with open_client(addresses, options) as client:
            found = await add_cluster(archive, client, found)
    except CertificateError as error:
        archive.miss("the API server", str(error))
    with progress_bar("processes", len(found), fewest=2) as advance:

        async def one(process: Process) -> None:
            await add_process(archive, process, options)
            advance()

        await asyncio.gather(*(one(process) for process in found))
    add_logs(archive, [*(p.log for p in found if p.log is not None), *logs])


MIB: Final = 1 << 20

# Secrets that ``masked`` does not find: PEM keys, JSON Web Tokens, and secret fields of JSON or
# YAML. Each character is looked at a bounded number of times: users store texts of any length.
_FIELD: Final = re.compile(
    r"((?:token|passw|secret|authorization|credential|api[_-]?key)[\w.-]*+)"
    r'(?:("?\s*+[:=]\s*+)("(?:[^"\\\n]|\\.)*+"|[^\s,}"]++))?',
    re.I,
)
_SECRETS: Final = (
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.S), MASK),
    (re.compile(r"(?<![\w-])eyJ[\w-]{10,}+\.[\w-]++\.[\w-]*"), MASK),
)


def without_secrets(text: str) -> str:
    """Return a text with masked secrets and escaped control characters."""
    text = masked(text)  # first: it also masks the word after "Bearer"
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return _FIELD.sub(_mask_value, text)


def _mask_value(found: re.Match[str]) -> str:
    name, equals, value = found.groups()
    if value is None:
        return name
    quote = '"' if value.startswith('"') else ""
    return f"{name}{equals}{quote}{MASK}{quote}"


@dataclass(slots=True)
class Archive:
    """The texts of the archive by name; a text that exceeds the size limit is cut.

    So the most important texts are added first.
    """

    left: int
    """Bytes of all texts that may still be added."""
    texts: dict[str, bytes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """Lines about what was not collected."""
    reached: bool = False
    """Whether a process has answered."""

    def miss(self, what: str, why: str) -> None:
        """Report something that was not collected."""
        self.missing.append(f"{what}: {masked(why)}")

    def add(self, name: str, text: str, *, keep_end: bool = False) -> None:
        """Add a text; if it is too long, only its beginning or end."""
        content = without_secrets(text).encode(errors="backslashreplace")
        if len(content) > self.left:
            self.miss(name, f"cut to {self.left:,} of {len(content):,} bytes (--max-size)")
            cut = len(content) - self.left
            content = content[cut:] if keep_end else content[: self.left]
        self.left -= len(content)
        while name in self.texts:
            name += "+"
        self.texts[name] = content

    def add_data(self, name: str, data: Any) -> None:
        """Add plain data as JSON, secret fields masked."""
        self.add(name, json.dumps(masked(data), indent=1, ensure_ascii=False, default=str))

    def write(self, path: Path) -> int:
        """Write a new file that only its owner may read; return its size. Raises OSError."""
        report = "\n".join(["Not collected:", *(self.missing or ["nothing"]), ""])
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        folder = path.name.partition(".")[0]
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, content in {"report.txt": report.encode(), **self.texts}.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mode = len(content), 0o600
                archive.addfile(member, io.BytesIO(content))
        return path.stat().st_size


_PACKAGES = (
    "aetcd", "aiohttp", "grpcio", "numpy", "opentelemetry-sdk", "orjson", "prometheus-client",
    "protobuf", "pydantic", "ray", "structlog",
)  # fmt: skip
_VARIABLES = ("SCHED_", "RAY_", "OTEL_", "GRPC_", "PYTHON")
#: The kinds whose objects are packed, and the max number of each kind: the latest ones.
_SHOWN = ("Node", "Pod", "Event", "Lease", "PodDisruptionBudget", "PriorityClass", "ReplicaSet")
_MOST_OBJECTS = 2000
_ANYWHERE = ("0.0.0.0", "::")


def add_this_machine(archive: Archive) -> None:
    """Add versions, and the variables that podsched and its libraries read."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = ""
    archive.add_data(
        "versions.json",
        {
            "podsched": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "packages": packages,
            # OpenTelemetry's headers contain keys, under names that their receivers choose.
            "environment": {
                k: MASK if k.endswith("_HEADERS") else v
                for k, v in os.environ.items()
                if k.startswith(_VARIABLES)
            },
        },
    )


async def add_cluster(
    archive: Archive, client: ApiClient, known: Sequence[Process]
) -> list[Process]:
    """Add status and objects; return the known processes and the processes of the replicas."""
    try:
        status = await collect(client, DEFAULT_LOCK)
    except ClientError as error:
        archive.miss("the API server", str(error))
        return list(known)
    archive.reached = True
    archive.add_data("status.json", status)
    counts: dict[str, Any] = {}
    for kind in KINDS.values():
        try:
            items = (await client.list(kind.name)).items
        except ClientError as error:
            archive.miss(f"objects/{kind.plural}", str(error))
            continue
        counts[kind.plural] = len(items)
        if kind.name in _SHOWN and items:
            items.sort(key=lambda item: int(item.metadata.resource_version or 0))
            latest = map(without_private_fields, items[-_MOST_OBJECTS:])
            archive.add_data(f"objects/{kind.plural}.json", list(map(to_manifest, latest)))
    archive.add_data("objects/counts.json", counts)
    replicas = [_replica(about) for about in status["replicas"] if about["state"] != "gone"]
    by_url = {process.url: process for process in (*replicas, *known) if process.url}
    local = {process.url: process.log for process in known}
    names = {process.url: process.name for process in replicas}
    return [
        Process(names.get(url, process.name), url, local.get(url, process.log))
        for url, process in by_url.items()
    ] + [process for process in known if not process.url]


def _replica(about: dict[str, Any]) -> Process:
    """Return a replica's process; if it listens on all addresses, with its host's address."""
    url = str(about["health"])
    parts = http_url(url)
    if parts is not None and parts.hostname in _ANYWHERE and about["host"]:
        url = urlunsplit(parts._replace(netloc=f"{about['host']}:{parts.port}"))
    return Process(f"scheduler-{about['identity']}", url)


#: Pages of the health server, and their files in the archive. Not every process has all pages.
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
    """A process of the cluster; ``url`` of its health server, "" if unknown."""

    name: str
    url: str
    log: Path | None = None


def processes_here(servers: Sequence[str]) -> list[Process]:
    """Return the processes of the cluster that run on this machine under this user.

    They are found by their command lines in /proc, which name an API server of the cluster. The log
    is the file of the standard error, if it is a file.
    """
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
    """Return the process of a command line, if it belongs to the cluster."""
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
    """Add the HTTP pages that a process has."""
    if not process.url:
        archive.miss(process.name, "its health address is unknown: give it with --health")
        return
    for path, file in _PAGES.items():
        try:
            text = await asyncio.to_thread(_read, process.url.rstrip("/") + path, options)
        except urllib.error.HTTPError as error:
            if path not in _OPTIONAL or error.code != 404:
                archive.miss(f"{process.name}{path}", f"HTTP {error.code}")
        except (OSError, ValueError, HTTPException) as error:
            why = getattr(error, "reason", error)
            if isinstance(error, BadStatusLine) and not isinstance(error, OSError):
                why = "no valid HTTP answer"
            archive.miss(process.name, f"{process.url}: {why}")
            return
        else:
            archive.reached = True
            archive.add(f"processes/{process.name}/{file}", text)


def _read(url: str, options: ClientOptions) -> str:
    """Return a page; a failing probe is a page, too.

    Raises OSError, ValueError, HTTPException.
    """
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
