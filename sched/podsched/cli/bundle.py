"""Bundles: files with a decision and its input, written by ``sched explain`` to repeat it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from podsched.api.manifest import ManifestError, from_manifest
from podsched.api.objects import AnyObject, Pod, key_of
from podsched.api.quantity import QuantityError
from podsched.ask.explain.anonymity import Renaming
from podsched.ask.explain.bundle import BadBundle, Bundle, read_bundle, scenario_of
from podsched.ask.simulation import BadScenario, simulate
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, warn
from podsched.cli.output import say
from podsched.config.errors import ConfigError
from podsched.framework.plugin import PluginError
from podsched.lib.counted import counted
from podsched.lib.files import read_file
from podsched.registry import factories

#: Max bytes of a stored bundle.
_MOST_BYTES: Final = 256 << 20
_VERSIONED: Final = ("podsched", "numpy", "protobuf")


def write_bundle(
    path: Path,
    objects: Sequence[AnyObject],
    key: tuple[str, str],
    config: Mapping[str, Any] | None,
    *,
    anonymize: bool,
) -> None:
    """Write a bundle for a pod among the objects; exit if there is none or it cannot be decided."""
    pod = next((o for o in objects if isinstance(o, Pod) and key_of(o) == "/".join(key)), None)
    if pod is None:
        fail(f'pods "{key[1]}" not found in namespace "{key[0]}"', FAILED)
    scenario = scenario_of(objects, pod, config)
    result = decided(scenario)
    if anonymize:
        renaming = Renaming(scenario)
        scenario = renaming.scenario(scenario)
        original, result = result, decided(scenario)
        if outline(original, renaming.text) != outline(result, str):
            warn("the decision depends on names: with anonymized names it differs")
    versions = {name: version(name) for name in _VERSIONED}
    versions["python"] = platform.python_version()
    content = Bundle(scenario, result, versions, anonymize).to_bytes()
    with fail_on(OSError, about=path):
        path.write_bytes(content)
    objects_text = counted(len(scenario["objects"]), "object")
    say(f"{path}: {result['outcome']}; {objects_text}, {len(content):,} bytes")


def repeated(path: Path) -> tuple[Pod, dict[str, Any], str]:
    """Repeat a bundle's decision; return its pod, the result, and the comparison."""
    with (
        fail_on(BadBundle, about=f"{path} is not a bundle of sched explain", code=USAGE),
        fail_on(OSError, about=path, code=USAGE),
    ):
        bundle = read_bundle(read_file(path, _MOST_BYTES))
    result = decided(bundle.scenario)
    pod: Any = from_manifest({"kind": "Pod", "apiVersion": "v1", **bundle.scenario["pod"]}).message
    if result == bundle.result:
        return pod, result, "The result is the same as in the bundle."
    made_by = ", ".join(f"{name} {number}" for name, number in sorted(bundle.versions.items()))
    differing = sorted(
        part
        for part in result.keys() | bundle.result.keys()
        if result.get(part) != bundle.result.get(part)
    )
    text = f"The result differs from the bundle's in {', '.join(differing)}; made by {made_by}."
    return pod, result, text


def decided(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a scenario as plain data; exit if it cannot be decided."""
    with fail_on(ManifestError, ConfigError, QuantityError, BadScenario, PluginError):
        result: dict[str, Any] = json.loads(
            json.dumps(simulate(scenario, factories(), changes=True))
        )
    return result


def outline(result: Mapping[str, Any], renamed: Any) -> dict[str, Any]:
    """Return the parts of a result that are not text, with nodes renamed."""
    found: dict[str, Any] = {"outcome": result["outcome"]}
    for node, status in result.get("filter", {}).items():
        score = result.get("score", {}).get(node, {})
        found[renamed(node)] = (status["code"], status["plugin"], score.get("total"))
    found["best"] = sorted(renamed(node) for node in result.get("best", ()))
    found["changes"] = [(c["kind"], c["nodes"], c["cost"]) for c in result.get("changes", ())]
    return found
