"""Whatever is in the files that a command is given, it ends soon, with an exit code that says why.

In this process. ``apply`` has no server: what can be read ends with exit code 3.
"""

from __future__ import annotations

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
from podsched.lib.printable import printable
from support.commands import Commands, Done
from support.fuzz_requests import SEEDS
from support.fuzz_texts import CONFIG, changed, text_of

pytestmark = pytest.mark.fuzz

#: Seconds of processor time that any file may take.
_MOST_SECONDS = 5.0
#: A command takes some ten times as long as a request to the API server.
_SHARE = 20
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
        assert took < _MOST_SECONDS, f"{took:.1f} s: sched {' '.join(arguments)}"

    run()
    assert len(seen) > 1, f"all files end alike: {seen}"
