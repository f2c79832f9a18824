"""The archive of ``sched debug bundle``: texts without secrets, bounded in size."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any, Final

from podsched.telemetry.logs import MASK, masked, masked_data

MIB: Final = 1 << 20

# What ``masked`` does not look for: keys in PEM, JSON Web Tokens, and secrets in JSON or YAML.
_FIELD: Final = re.compile(
    r'("?[\w.-]*(?:token|passw|secret|authorization|credential|api_?key)[\w.-]*"?\s*[:=]\s*)'
    r'("(?:[^"\\\n]|\\.)*"|[^\s,}"]+)',
    re.I,
)
_SECRETS: Final = (
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.S), MASK),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]+\.[\w-]*"), MASK),
)


def without_secrets(text: str) -> str:
    """Return a text in which what looks like a secret is masked, control characters escaped."""
    text = masked(text)  # first: it knows that after "Bearer" comes one more word
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return _FIELD.sub(_mask_value, text)


def _mask_value(found: re.Match[str]) -> str:
    quote = '"' if found[2].startswith('"') else ""
    return f"{found[1]}{quote}{MASK}{quote}"


class Archive:
    """Texts by name, in the order of their importance: those that come too late are cut."""

    def __init__(self, most: int) -> None:
        """``most``: bytes of all texts together."""
        self._left = most
        self._texts: dict[str, bytes] = {}
        self.missing: list[str] = []
        #: Whether a process has answered.
        self.reached = False

    @property
    def names(self) -> list[str]:
        """What is in it."""
        return list(self._texts)

    def miss(self, what: str, why: str) -> None:
        """Report something that was not collected."""
        self.missing.append(f"{what}: {masked(why)}")

    def add(self, name: str, text: str, *, keep_end: bool = False) -> None:
        """Add a text; of one that is too long the beginning, or the end."""
        content = without_secrets(text).encode(errors="backslashreplace")
        if len(content) > self._left:
            self.miss(name, f"cut to {self._left:,} of {len(content):,} bytes (--max-size)")
            cut = len(content) - self._left
            content = content[cut:] if keep_end else content[: self._left]
        self._left -= len(content)
        while name in self._texts:
            name += "+"
        self._texts[name] = content

    def add_data(self, name: str, data: Any) -> None:
        """Add plain data as JSON, secret fields masked."""
        self.add(name, json.dumps(masked_data(data), indent=1, ensure_ascii=False, default=str))

    def write(self, path: Path) -> int:
        """Write a new file that only its owner may read; return its size. Raises OSError."""
        report = "\n".join(["Not collected:", *(self.missing or ["nothing"]), ""])
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        folder = path.name.partition(".")[0]
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, content in {"report.txt": report.encode(), **self._texts}.items():
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mode = len(content), 0o600
                archive.addfile(member, io.BytesIO(content))
        return path.stat().st_size
