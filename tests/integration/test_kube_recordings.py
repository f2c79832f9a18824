"""Exchanges recorded from kube-apiserver v1.36, replayed: each agrees or has a reason not to.

``kube_api/skipped.yaml`` is the table of the reasons; an exchange that agrees must not be in it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from podsched.api.etcd_keys import SYNC, object_key
from podsched.api.kinds import KINDS
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.serve.server.access.tokens import hash_of
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.telemetry.health import HealthChecks
from podsched.testing.memory_store import MemoryStore
from support.eventually import PATIENCE

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent / "kube_api"
#: Of what controllers do: it needs more than an API server.
CONTROLLERS = "controllers"
TOPICS = sorted(path.stem for path in HERE.glob("*.jsonl") if path.stem != CONTROLLERS)
REASONS: Mapping[str, str] = {
    exchange: group["because"]
    for group in yaml.safe_load((HERE / "skipped.yaml").read_text())
    for exchange in group["exchanges"]
}
#: Nothing that schedulers read, by the recordings' own account.
IGNORED = (
    "*.terminationMessagePath",
    "*.terminationMessagePolicy",
    "*.imagePullPolicy",
    "*.dnsPolicy",
    "*.enableServiceLinks",
    "*.securityContext",
)


#: Replays of a topic at the same time, which share its watches.
PARTS = 4


def parts(topic: str, folder: Path) -> list[Path]:
    """A topic as files: each has a share of the watches during which nothing happens.

    Such a watch takes the second that it lasts. It leaves nothing behind if others do without what
    it alone tells: the values of placeholders.
    """
    path = HERE / f"{topic}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    idle: list[int] = []
    told: set[str] = set()
    for number, line in enumerate(lines):
        exchange = json.loads(line)
        found = set(re.findall("<[a-z]+:[0-9]+>", line))
        watch = "timeoutSeconds=" in exchange["request"]["path"]
        if watch and "meanwhile" not in exchange and found <= told:
            idle.append(number)
        told |= found
    if len(idle) < PARTS:
        return [path]
    files = [folder / f"{topic}-{part}.jsonl" for part in range(PARTS)]
    for part, file in enumerate(files):
        left_out = set(idle) - set(idle[part::PARTS])
        file.write_text("".join(line for n, line in enumerate(lines) if n not in left_out))
    return files


#: A topic about versions that are forgotten, and the last write before they are.
EXPIRED, LAST_WRITE = "expired", object_key(KINDS["Pod"], "expired/bb")


async def forget(store: MemoryStore) -> None:
    """Compact the store once all has been written that ``expired`` asks for afterwards.

    The server that was recorded forgets within seconds. Here that would make it a matter of time
    which answers are still from before.
    """
    async for batch in store.watch(LAST_WRITE):
        if batch.events:
            await store.compact(batch.revision)


async def replayed(recording: Path, tokens: Path) -> set[str]:
    """The exchanges of a recording that a fresh server answers differently."""
    store = MemoryStore()
    forgetting = None
    if recording.stem == EXPIRED:
        for _ in range(2):  # of what the server does not remember from the start
            await store.txn([], [Put(SYNC, b"")])
        forgetting = asyncio.create_task(forget(store))
    settings = ServerSettings(kube_listen="127.0.0.1:0", token_file=str(tokens))
    probes = Probes(HealthChecks(), lambda _: (b"", "text/plain"))
    server = ApiServer(settings, store, probes=probes)
    await server.start()
    try:
        tokens_shown = ("--token", "admin", "--token-of", "reader=reader")
        return await differing_from(f"127.0.0.1:{server.kube_port}", recording, *tokens_shown)
    finally:
        if forgetting is not None:
            forgetting.cancel()
        await server.stop(0.5)
        await store.close()


async def differing_from(address: str, recording: Path, *arguments: str) -> set[str]:
    """The exchanges of a recording that a server answers differently."""
    ignored = (argument for path in IGNORED for argument in ("--ignore", path))
    replaying = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HERE / "replay.py"),
        *("--server", f"http://{address}", "--lenient", *arguments, *ignored, str(recording)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(replaying.communicate(), 4 * PATIENCE)
    assert replaying.returncode in (0, 1), output.decode()
    return set(re.findall(r"^DIFF  (\S+)", output.decode(), re.MULTILINE))


async def test_every_exchange_agrees_or_has_a_reason(tmp_path: Path) -> None:
    """All topics at once, for most of their time is waiting for watches to end.

    Some watches last three seconds in which others write: too little on a machine that is busy with
    all of this. What differs is replayed once more, by itself.
    """
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{hash_of('admin')},admin,system:masters,\n{hash_of('reader')},reader,,\n")
    recordings = [part for topic in TOPICS for part in parts(topic, tmp_path)]
    found = await asyncio.gather(*(replayed(recording, tokens) for recording in recordings))
    differing: set[str] = set()
    for recording, ids in zip(recordings, found, strict=True):
        unexpected = ids - REASONS.keys()
        differing |= await replayed(recording, tokens) if unexpected else ids
    assert sorted(differing - REASONS.keys()) == [], "differ without a reason"
    assert sorted(REASONS.keys() - differing) == [], "agree, though they have a reason not to"


async def test_controllers_do_what_those_of_kubernetes_do(tmp_path: Path) -> None:
    """For budgets, volumes and their claims, and namespaces that end."""
    recorded = HERE / f"{CONTROLLERS}.jsonl"
    options = LocalClusterOptions(
        tmp_path,
        replicas=1,
        nodes=1,
        evaluator="local",
        fsync=False,
        kube_address="127.0.0.1:0",
    )
    cluster = LocalCluster(options)
    try:
        await cluster.start()
        assert cluster.specs.kubeconfig is not None
        (named,) = yaml.safe_load(cluster.specs.kubeconfig.read_text())["clusters"]
        address = named["cluster"]["server"].removeprefix("http://")
        # The seconds in which controllers do something are few for a machine that is busy.
        patient = re.sub('"eventually": [0-9]+', f'"eventually": {PATIENCE}', recorded.read_text())
        (recording := tmp_path / recorded.name).write_text(patient)
        assert await differing_from(address, recording) == set()
    finally:
        await cluster.stop()
