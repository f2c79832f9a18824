"""Output formats of ``get``: tables, manifests, names, JSONPath templates, custom columns."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
import yaml

from podsched.api import quantity
from podsched.api.columns import NONE
from podsched.api.kinds import KINDS, kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.errors import USAGE, fail, fail_on, warn
from podsched.cli.json_path import TemplateError, as_text, parse_template, query_of, render
from podsched.cli.printers import TablePrinter, Usage, aligned
from podsched.lib.groups import lists_by_key

_PLAIN = ("table", "wide", "yaml", "json", "name")
_WITH_TEXT = ("jsonpath", "custom-columns")
#: A format of ``get`` only, which also shows objects that cannot be decoded.
RAW = "raw"

OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="Output format: table, wide (more columns), yaml, json, name, jsonpath=TEMPLATE, "
        "custom-columns=HEADING:PATH,..., or raw (the stored bytes of an object, even if invalid).",
        autocompletion=lambda: [*_PLAIN, RAW, *(f"{name}=" for name in _WITH_TEXT)],
    ),
]
SortBy = Annotated[
    str,
    typer.Option(
        "--sort-by", metavar="PATH", help="Sort by a field, such as .metadata.creationTimestamp."
    ),
]


@dataclass(frozen=True, slots=True)
class Format:
    """A valid output format."""

    name: str
    text: str = ""
    """The template, or the columns."""

    @property
    def manifests(self) -> bool:
        """Whether the format escapes control characters itself."""
        return self.name in ("yaml", "json")

    @property
    def documents(self) -> bool:
        """Whether the format is of a document: an object or a List of them."""
        return self.manifests or self.name == "jsonpath"


def parse_format(text: str) -> Format:
    """Return the format of ``--output``; exit if it is unknown or malformed."""
    name, equals, rest = text.partition("=")
    if name in _PLAIN and not equals:
        return Format(name)
    if name not in _WITH_TEXT:
        fail(f'--output: "{text}" is not one of {", ".join((*_PLAIN, *_WITH_TEXT, RAW))}', USAGE)
    if not rest:
        fail(f"--output: {name} needs a value: {name}=...", USAGE)
    found = Format(name, rest)
    Printer(found)  # exits if the template or a column is malformed, before any call
    return found


class Printer:
    """Prints objects in a format; the first call of a table has its heading."""

    def __init__(
        self,
        chosen: Format,
        *,
        namespaces: bool = False,
        kinds_in_names: bool = False,
        usage: Usage | None = None,
    ) -> None:
        """See ``TablePrinter``."""
        self._format = chosen
        self._table_of = partial(
            TablePrinter,
            namespaces=namespaces,
            wide=chosen.name == "wide",
            kinds_in_names=kinds_in_names,
            usage=usage,
        )
        self._tables: dict[str, TablePrinter] = {}
        if chosen.name == "jsonpath":
            with fail_on(TemplateError, about="--output: jsonpath", code=USAGE):
                self._template = parse_template(chosen.text)
        if chosen.name == "custom-columns":
            self._columns = _columns_or_fail(chosen.text)
            self._headed = False

    def text(self, items: Sequence[AnyObject], *, single: bool) -> str:
        """Return objects as text without a line break at the end; "" if there is nothing to print.

        ``single``: a manifest is that of the object itself, not a List.
        """
        chosen = self._format.name
        if chosen == "name":
            return "\n".join(reference(item) for item in items)
        if chosen in ("table", "wide"):
            return "\n".join(self._table(items))
        manifests = [to_manifest(item) for item in items]
        if chosen == "custom-columns":
            return "\n".join(self._custom(manifests))
        if self._format.manifests:
            for manifest in manifests:
                manifest.get("metadata", {}).pop("managedFields", None)
        document: Any = (
            manifests[0] if single else {"apiVersion": "v1", "kind": "List", "items": manifests}
        )
        return render(self._template, document) if chosen == "jsonpath" else dump(document, chosen)

    def _table(self, items: Sequence[AnyObject]) -> list[str]:
        lines: list[str] = []
        by_kind = lists_by_key((kind_of(item).name, item) for item in items)
        for name, group in by_kind.items():
            if name not in self._tables:
                self._tables[name] = self._table_of(KINDS[name])
            if lines:
                lines.append("")
            lines += self._tables[name].lines(group, time.time())
        return lines

    def _custom(self, manifests: Sequence[Any]) -> list[str]:
        rows = [] if self._headed else [[heading for heading, _ in self._columns]]
        self._headed = True
        for manifest in manifests:
            cells = [query.findall(manifest) for _, query in self._columns]
            rows.append([",".join(as_text(found) for found in cell) or NONE for cell in cells])
        return aligned(rows)


class _Dumper(yaml.SafeDumper):
    """Quotes text that kubectl or ``sched apply`` would not read as text, though PyYAML does."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:0o[0-7_]+|(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?)$"
    ),
    list("-+.0123456789"),
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def dump(document: Any, form: str) -> str:
    """Return plain data as JSON or YAML; ``form``: json or yaml."""
    if form == "json":
        return json.dumps(document, indent=2)
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False).rstrip("\n")


def reference(message: AnyObject) -> str:
    """Return the name of an object as kubectl prints it, such as pod/web."""
    return f"{kind_of(message).name.lower()}/{message.metadata.name}"


def sorted_by(items: Sequence[AnyObject], path: str) -> list[AnyObject]:
    """Return objects sorted by a field, as kubectl does: missing ones first.

    Quantities, numbers, and numbers in text are sorted by value.
    """
    with fail_on(TemplateError, about="--sort-by", code=USAGE):
        query = query_of(path)

    def key(item: AnyObject) -> tuple[int, Any]:
        found = query.findall(to_manifest(item))
        if not found:
            return (0, 0)
        text = as_text(found[0])
        try:
            return (1, quantity.parse(text))
        except quantity.QuantityError:
            return (2, [_place(part) for part in re.findall("[0-9]+|[^0-9]", text)])

    return sorted(items, key=key)


def _place(part: str) -> tuple[str, int, str]:
    """Return the place of a character, or of a number of any length, in the order of texts."""
    digits = part.lstrip("0")
    return ("0", len(digits), digits) if part[0] in "0123456789" else (part, 0, "")


def warn_if_unsorted(items: Sequence[AnyObject], path: str) -> None:
    """Warn if no object has the field to sort by, which may be misspelled."""
    if items and not any(query_of(path).findall(to_manifest(item)) for item in items):
        warn(f"--sort-by: no object has the field {path}")


def _columns_or_fail(text: str) -> list[tuple[str, Any]]:
    columns = []
    for part in text.split(","):
        heading, colon, path = part.partition(":")
        if not heading or not colon or not path:
            fail(f'--output: custom-columns: "{part}" is not HEADING:PATH', USAGE)
        with fail_on(TemplateError, about="--output: custom-columns", code=USAGE):
            columns.append((heading, query_of(path)))
    return columns
