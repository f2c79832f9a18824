"""Reads and writes the annotation in which kubectl notes what it applies by itself.

When kubectl applies on the server what it applied by itself before, it may change that, whoever
owns it now, and the server renews its note. Source: lastappliedmanager.go and lastappliedupdater.go
in apimachinery/pkg/util/managedfields/internal of Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from podsched.api.json_text import load_json
from podsched.api.private_fields import LAST_APPLIED
from podsched.api.validation.meta import MAX_ANNOTATIONS_BYTES
from podsched.serve.server.patching import is_deep
from podsched.serve.server.rest.fieldsets import is_large

#: The field manager of kubectl apply --server-side, unless it is told another.
KUBECTL: Final = "kubectl"


def last_applied(content: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the configuration in an object's note; none if it is of another apiVersion."""
    try:
        found = load_json(_annotations(content).get(LAST_APPLIED, "").encode())
    except ValueError:
        return {}
    if not isinstance(found, dict) or is_deep(found) or is_large(found):
        return {}
    fits = found.get("apiVersion") == version and isinstance(found.get("metadata"), dict)
    return found if fits else {}


def renewed(content: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object whose note, if it has one, is a configuration; a too large one is left out.

    config: with kind and apiVersion.
    """
    annotations = _annotations(content)
    if not annotations.get(LAST_APPLIED):
        return content
    given = {key: value for key, value in _annotations(config).items() if key != LAST_APPLIED}
    noted = {**config, "metadata": {**config.get("metadata", {}), "annotations": given}}
    text = json.dumps(noted, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    annotations[LAST_APPLIED] = f"{text}\n"
    size = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS_BYTES:
        del annotations[LAST_APPLIED]
    return {**content, "metadata": {**content["metadata"], "annotations": annotations}}


def _annotations(content: Mapping[str, Any]) -> dict[str, Any]:
    return dict(content.get("metadata", {}).get("annotations") or {})
