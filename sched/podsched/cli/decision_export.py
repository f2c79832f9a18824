"""Decisions as files for other programs: JSON lines, or Parquet (with the extra ``parquet``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from podsched.cli.errors import FAILED, USAGE, fail
from podsched.v1.decisions_pb2 import DecisionRecord


def export(records: Sequence[DecisionRecord], path: Path) -> int:
    """Write decisions to a file named after its format; return how many. Exits for other names."""
    if path.suffix == ".jsonl":
        lines = (json.dumps(MessageToDict(record)) + "\n" for record in records)
        path.write_text("".join(lines))
    elif path.suffix == ".parquet":
        _parquet(records, path)
    else:
        fail(f"--export: {path}: the name must end in .jsonl or .parquet", USAGE)
    return len(records)


def _parquet(records: Sequence[DecisionRecord], path: Path) -> None:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        fail("--export to Parquet needs pyarrow: install podsched with its extra parquet", FAILED)
    scores = arrow.list_(
        arrow.struct(
            [
                ("node_name", arrow.string()),
                ("total", arrow.int64()),
                ("plugins", arrow.map_(arrow.string(), arrow.int64())),
            ]
        )
    )
    own = {"scores": scores, "plugin_seconds": arrow.map_(arrow.string(), arrow.float64())}
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    time = arrow.timestamp("us", tz="UTC")
    fields = _fields()
    schema = arrow.schema(
        [(name, own.get(name) or (time if kind is None else types[kind])) for name, kind in fields]
    )
    table = arrow.Table.from_pylist([_plain(record) for record in records], schema=schema)
    parquet.write_table(table, path)


def _fields() -> list[tuple[str, type | None]]:
    """Return the names of a record's fields and their types; None: a time."""
    empty = DecisionRecord()
    found: list[tuple[str, type | None]] = []
    for field in DecisionRecord.DESCRIPTOR.fields:
        value = getattr(empty, field.name)
        found.append((field.name, type(value) if isinstance(value, str | int | float) else None))
    return found


def _plain(record: DecisionRecord) -> dict[str, Any]:
    """Return a record as plain values; times as datetimes."""
    plain: dict[str, Any] = {}
    for name, kind in _fields():
        value = getattr(record, name)
        if name == "scores":
            plain[name] = [
                {"node_name": s.node_name, "total": s.total, "plugins": list(s.plugins.items())}
                for s in value
            ]
        elif name == "plugin_seconds":
            plain[name] = list(value.items())
        elif kind is None or name == "total":
            known = record.HasField(name)
            plain[name] = (value.ToDatetime() if kind is None else value) if known else None
        else:
            plain[name] = value
    return plain
