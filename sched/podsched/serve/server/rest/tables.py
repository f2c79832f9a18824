"""Converts objects to a ``Table``, with the columns that Kubernetes prints for their kinds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from podsched.api.columns import Column, Show
from podsched.api.kind import Kind
from podsched.serve.server.entries import Entry
from podsched.serve.server.rest.failures import bad_request
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.views import META, content_of, partial, typed


class Tables:
    """Makes tables; in a watch, only the first has the column definitions."""

    def __init__(self) -> None:
        self._defined = False

    def of(
        self,
        resource: Resource,
        entries: Sequence[Entry],
        query: Mapping[str, str],
        now: float,
        revision: int = 0,
    ) -> dict[str, Any]:
        """Return a table without metadata. Raises RestError 400."""
        columns = _columns(resource.kind)
        include = _included(query)
        return {
            "kind": "Table",
            "apiVersion": META,
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": [_row(resource, columns, entry, revision, include, now) for entry in entries],
        }

    def of_one(
        self, resource: Resource, entry: Entry, revision: int, query: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the table of a watch event: one row. Raises RestError 400."""
        table = self.of(resource, [entry], query, time.time(), revision)
        if self._defined:
            table["columnDefinitions"] = None
        self._defined = True
        return {**table, "metadata": {"resourceVersion": str(revision or entry.revision)}}


@cache
def _columns(kind: Kind) -> Sequence[Column]:
    return [column for column in kind.columns if column.kubectl is not Show.NEVER]


def _included(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return include or "Metadata"


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": "string",
        "format": column.form,
        "description": column.name,
        "priority": int(column.kubectl is Show.WIDE),
    }


def _row(
    resource: Resource,
    columns: Sequence[Column],
    entry: Entry,
    revision: int,
    include: str,
    now: float,
) -> dict[str, Any]:
    message = entry.message
    row: dict[str, Any] = {"cells": [column.cell(message, now) for column in columns]}
    if include != "None":
        content = content_of(resource, entry, revision)
        row["object"] = typed(resource, content) if include == "Object" else partial(content)
    return row
