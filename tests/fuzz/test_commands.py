"""Whatever is in the files that a command is given, it ends soon, with an exit code that says why.

In this process. ``apply`` has no server: what can be read ends with exit code 3.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from podsched.api.manifest import to_manifest
from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.rows import FIELDS
from podsched.ask.decisions.stores import PATTERN
from podsched.lib.printable import printable
from support.commands import Commands, Done
from support.fuzz_requests import SEEDS
from support.fuzz_texts import CONFIG, changed, text_of
from support.processor_time import exceeds
from support.recordings import a_node, a_pod

pytestmark = pytest.mark.fuzz

#: Seconds of processor time that any file may take.
_MOST_SECONDS = 5.0
#: A command takes some ten times as long as a request to the API server.
_SHARE = 20
#: Files of which some end otherwise than others.
_ENOUGH = 50
_ODD_FIELDS = (
    "", "-1", "1e300", "nan", "inf", "9" * 30, "x", '"', "\x00", "1e9", ">24", "\u0661", " ",
)  # fmt: skip
_NOBODY = "127.0.0.1:1"

Case = Callable[[random.Random, Path], list[str]]


def _written(path: Path, document: Any, rng: random.Random) -> str:
    text = text_of(document, rng)
    path.write_bytes(text.encode(errors="surrogatepass"))
    return str(path)


def _manifest(rng: random.Random) -> Any:
    manifests = [to_manifest(seed) for seed in rng.choices(SEEDS, k=rng.choice((1, 1, 5)))]
    document = manifests[0]
    if len(manifests) > 1:
        document = {"apiVersion": "v1", "kind": "List", "items": manifests}
    return changed(document, rng)


def _check(rng: random.Random, folder: Path) -> list[str]:
    return ["config", "check", _written(folder / "config", changed(CONFIG, rng), rng)]


def _apply(rng: random.Random, folder: Path) -> list[str]:
    file = _written(folder / "manifests", _manifest(rng), rng)
    return ["apply", "-f", file, "--server", _NOBODY, *rng.choice(([], ["--strict"]))]


def _simulate(rng: random.Random, folder: Path) -> list[str]:
    pods = [to_manifest(seed) for seed in SEEDS if seed.DESCRIPTOR.name == "Pod"]
    others = [to_manifest(seed) for seed in SEEDS if seed.DESCRIPTOR.name != "Event"]
    cluster = {"apiVersion": "v1", "kind": "List", "items": others}
    pod = rng.choice(pods)
    if rng.random() < 0.5:
        pod = changed(pod, rng)
    else:
        cluster = changed(cluster, rng)
    (folder / "cluster").write_text(yaml.safe_dump(cluster))
    arguments = ["simulate", "-f", str(folder / "cluster")]
    arguments += ["--pod", _written(folder / "pod", pod, rng), "-o", rng.choice(("text", "json"))]
    if rng.random() < 0.2:
        arguments += ["--config", _written(folder / "config", changed(CONFIG, rng), rng)]
    return arguments


def _lines(documents: list[Any], rng: random.Random) -> bytes:
    """Lines of JSON, of which one is changed or damaged."""
    lines = [json.dumps(document) for document in documents]
    at = rng.randrange(len(lines))
    if rng.random() < 0.7:
        lines[at] = json.dumps(changed(documents[at], rng))
    else:
        lines[at] = text_of(documents[at], rng).replace("\n", " ")
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogatepass")


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Sometimes with a few other bytes, or cut short."""
    if rng.random() < 0.8:
        return content
    at = rng.randrange(len(content))
    return content[:at] + (b"" if rng.random() < 0.5 else rng.randbytes(8) + content[at + 8 :])


def _replay(rng: random.Random, folder: Path) -> list[str]:
    node = to_manifest(a_node("n"))
    pod, bound = to_manifest(a_pod("p")), to_manifest(a_pod("p", on="n"))
    documents = [
        {"recording": 1, "time": 1.0},
        {"object": node},
        {"synced": 1},
        {"t": 1.0, "r": 2, "e": "A", "object": pod},
        {"t": 1.5, "decision": {"number": 1, "podUid": "uid-p", "nodeName": "n"}},
        {"t": 2.0, "r": 3, "e": "M", "object": bound},
        {"t": 9.0, "end": "time is up", "r": 3},
    ]
    (folder / "rec").write_bytes(_damaged(gzip.compress(_lines(documents, rng), 1), rng))
    return ["replay", str(folder / "rec"), *rng.choice(([], ["--verify"], ["--nodes", "+1"]))]


def _trace(rng: random.Random, folder: Path) -> list[str]:
    rows = [["vm", "s", "d", "0", "60", "1", "1", "1", "Interactive", "4", "16"] for _ in range(5)]
    for _ in range(rng.choice((1, 2, 5))):
        rng.choice(rows)[rng.randrange(11)] = rng.choice(_ODD_FIELDS)
    text = "\n".join(",".join(row) for row in rows).encode()
    (folder / "vmtable.csv.gz").write_bytes(_damaged(gzip.compress(text, 1), rng))
    return ["replay", str(folder), "--trace", "azure", "--json"]


def _bundle(rng: random.Random, folder: Path) -> list[str]:
    scenario = {"id": "x", "objects": [to_manifest(a_node("n"))], "pod": to_manifest(a_pod("p"))}
    document = {"bundle": 1, "versions": {"podsched": "1"}, "scenario": scenario, "result": {}}
    text = json.dumps(changed(document, rng)).encode()
    (folder / "bundle").write_bytes(_damaged(gzip.compress(text, 1), rng))
    return ["simulate", "--bundle", str(folder / "bundle")]


def _decisions(rng: random.Random, folder: Path) -> list[str]:
    row: list[Any] = [
        1, "default", "p", "uid-p", 1, "default-scheduler", "c", 1, 1, 3, 2, "n", 1, 1, 0, 0,
        1.0, 1.5, 2.0, 0.001, "Scheduled", "", 2.5, {"scores": [["n", 1, {"Fit": 1}]]},
    ]  # fmt: skip
    facts = {"replica": "r", "fields": [*FIELDS]}
    content = changed({"facts": facts, "rows": [row, row]}, rng)
    writer = FrameWriter()
    frames = writer.facts(content.get("facts", {}), 1.0)
    rows = content.get("rows")
    frames += writer.rows(rows if isinstance(rows, list) else [rows], (1.0, 2.5), [])
    (folder / "log").mkdir(exist_ok=True)
    segment = folder / "log" / PATTERN.replace("*", "1")
    segment.write_bytes(_damaged(frames, rng))
    if rng.random() < 0.1:
        segment.unlink()
    output = rng.choice(("table", "wide", "json"))
    return ["decisions", "--file", str(folder / "log"), "-A", "-o", output]


def _judge(done: Done, arguments: list[str], codes: set[int]) -> None:
    said = done.out + done.err
    context = f"sched {' '.join(arguments)}: {said[-2000:]}"
    assert done.code in codes, f"exit code {done.code}: {context}"
    assert "Traceback" not in said, context
    assert said.strip(), f"nothing is said: {context}"
    assert printable(said) == said, f"control characters: {context!r}"


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        pytest.param(_check, {0, 1, 2}, id="config check"),
        pytest.param(_apply, {1, 2, 3}, id="apply"),
        pytest.param(_simulate, {0, 1, 2}, id="simulate"),
        pytest.param(_replay, {0, 1, 2}, id="replay"),
        pytest.param(_trace, {0, 2}, id="replay --trace"),
        pytest.param(_bundle, {0, 1, 2}, id="simulate --bundle"),
        pytest.param(_decisions, {0, 1, 2}, id="decisions --file"),
    ],
)
def test_any_file_is_taken_or_refused(
    case: Case, codes: set[int], requests: int, tmp_path: Path, sched: Commands
) -> None:
    seen: Counter[int] = Counter()

    @settings(
        max_examples=max(1, requests // _SHARE),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64))
    def run(seed: int) -> None:
        arguments = case(random.Random(seed), tmp_path)
        began = time.process_time()
        done = sched(*arguments)
        took = time.process_time() - began
        seen[done.code] += 1
        _judge(done, arguments, codes)
        assert not exceeds(took, _MOST_SECONDS), f"{took:.1f} s: sched {' '.join(arguments)}"

    run()
    assert len(seen) > 1 or seen.total() < _ENOUGH, f"all files end the same: {seen}"
