"""Stores plans between ``sched plan`` and ``sched apply --plan``, in files named by their content.

The token of a plan is a hash of its content, which the file has, too: a truncated or edited file is
not accepted, nor one of another version of podsched. Only the user can read the files, because
manifests may contain secrets.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsched import __version__
from podsched.cli.errors import FAILED, USAGE, fail, fail_on
from podsched.cli.manifests import MAX_BYTES
from podsched.lib.bounded_text import parse_json
from podsched.lib.files import FileTooLarge, read_file, write_private

_TOKEN = re.compile("[0-9a-f]{16}")
#: Max plans that are kept; the oldest are deleted.
_KEPT = 50


def directory() -> Path:
    """Return the directory of plans: ``$XDG_STATE_HOME/podsched/plans``."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "podsched" / "plans"


def save(document: Mapping[str, Any], out: Path | None = None) -> str:
    """Write a plan to ``out`` or the directory of plans; return its token. Exits on errors."""
    token = _token(document)
    text = json.dumps({"token": token, "version": __version__, **document})
    path = out or directory() / f"{token}.json"
    with fail_on(OSError, about=f"{path}: the plan cannot be written"):
        if out is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _forget_old(path.parent)
        write_private(path, text)
    return token


def load(name: str) -> dict[str, Any]:
    """Return the plan with a token or in a file; exit if there is none, or if it was edited."""
    kept = _TOKEN.fullmatch(name) is not None and not Path(name).exists()
    path = directory() / f"{name}.json" if kept else Path(name)
    try:
        document = parse_json(read_file(path, MAX_BYTES))
    except FileNotFoundError:
        what = "plan with this token on this machine" if kept else "such file"
        fail(f"plan {name}: there is no {what}", USAGE)
    except FileTooLarge as exc:
        fail(f"plan {path}: {exc.strerror}", USAGE)
    except (OSError, ValueError) as exc:
        fail(f"plan {path}: not a plan: {getattr(exc, 'strerror', None) or exc}", USAGE)
    if not isinstance(document, dict) or document.get("kind") != "Plan":
        fail(f"plan {path}: not a plan: no kind Plan", USAGE)
    token, version = document.pop("token", ""), document.pop("version", "")
    if version != __version__:
        fail(f"plan {path}: another version of podsched made it: make it anew", FAILED)
    if token != _token(document) or (kept and token != name):
        fail(f"plan {name}: the file {path} was changed since", FAILED)
    return document


def _token(document: Mapping[str, Any]) -> str:
    text = json.dumps(document)  # In its order: keys that are no texts would be sorted as others.
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _forget_old(parent: Path) -> None:
    found = sorted(parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_KEPT - 1 :]:
        path.unlink(missing_ok=True)
