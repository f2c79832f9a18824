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


class Table:
    """The form of a table: what is shown of the objects of a resource."""

    def __init__(self, resource: Resource, query: Mapping[str, str]) -> None:
        """Read the options in a query. Raises RestError 400."""
        self._resource = resource
        self._columns = _columns(resource.kind)
        self._include = _included(query)

    def head(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return a table without its rows."""
        definitions = [_definition(column) for column in self._columns]
        return {
            "kind": "Table",
            "apiVersion": META,
            "metadata": metadata,
            "columnDefinitions": definitions,
        }

    def row(self, entry: Entry, revision: int = 0) -> dict[str, Any]:
        """Return the row of an object, with its own or the given resourceVersion."""
        message, now = entry.message, time.time()
        row: dict[str, Any] = {"cells": [column.cell(message, now) for column in self._columns]}
        if self._include != "None":
            content = content_of(self._resource, entry, revision)
            full = self._include == "Object"
            row["object"] = typed(self._resource, content) if full else partial(content)
        return row

    def of_one(self, entry: Entry, revision: int = 0) -> dict[str, Any]:
        """Return the table of one object."""
        head = self.head({"resourceVersion": str(revision or entry.revision)})
        return {**head, "rows": [self.row(entry, revision)]}

    def of_metadata(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table of an object that has only metadata."""
        row = self.row(Entry(self._resource.kind, "", b"", 0, 0))
        head = self.head({"resourceVersion": content["metadata"]["resourceVersion"]})
        return {**head, "rows": [{**row, "object": partial(content)}]}


class WatchedTables:
    """The tables of a watch: only the first has the column definitions."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._defined = False

    def of(self, entry: Entry, revision: int) -> dict[str, Any]:
        """Return the table of an event."""
        return self._once_defined(self._table.of_one(entry, revision))

    def mark(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table of a bookmark."""
        return self._once_defined(self._table.of_metadata(content))

    def _once_defined(self, table: dict[str, Any]) -> dict[str, Any]:
        if self._defined:
            table["columnDefinitions"] = None
        self._defined = True
        return table


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
