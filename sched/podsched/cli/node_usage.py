"""Formats the requests of the pods on a node and its allocatable resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, cast

from podsched.api.conditions import is_finished
from podsched.api.objects import Node, Pod
from podsched.api.resources import CPU, MEMORY, PODS, readable_allocatable, requests_in_units

_BYTES = (MEMORY, "ephemeral-storage")
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")

Amounts = dict[str, int]
"""Amounts by resource: cpu in millicores, memory in bytes, others as plain numbers."""


def requested_on(pods: Iterable[Any]) -> dict[str, Amounts]:
    """Return the sums of the pods' requests by node; the resource ``pods`` is their number.

    Finished pods and pods without a node do not count.
    """
    nodes: dict[str, Amounts] = {}
    for pod in pods:
        if not pod.spec.node_name or is_finished(pod):
            continue
        used = nodes.setdefault(pod.spec.node_name, {})
        for name, amount in {**requests_in_units(cast(Pod, pod)), PODS: 1}.items():
            used[name] = used.get(name, 0) + amount
    return nodes


def usage_cells(node: Node, used: Mapping[str, int]) -> tuple[str, ...]:
    """Return CPU, MEMORY and PODS of a node as "requested/allocatable"."""
    has = readable_allocatable(node)
    return tuple(
        f"{humanised(name, used.get(name, 0))}/{humanised(name, has.get(name, 0))}"
        for name in (CPU, MEMORY, PODS)
    )


def usage_rows(node: Node, used: Mapping[str, int]) -> list[list[str]]:
    """Return a row for each resource: name, requested, allocatable, and the share in percent."""
    allocatable, rows = readable_allocatable(node), []
    for name in sorted({*node.status.allocatable, *used}, key=_rank):
        has, amount = allocatable.get(name, 0), used.get(name, 0)
        share = f"{round(Fraction(100 * amount, has))}%" if has else "-"
        rows.append([name, humanised(name, amount), humanised(name, has), share])
    return rows


def humanised(resource: str, amount: int) -> str:
    """Return an amount in a readable form: 250m, 4, 128Mi, 1.5Gi."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource not in _BYTES:
        return str(amount)
    for index, suffix in enumerate(_BINARY):
        unit = 1 << (10 * (len(_BINARY) - index))
        if amount >= unit:
            whole, rest = divmod(amount, unit)
            # Only the rest is divided in floating point, which cannot represent every quantity.
            tenths = round(10 * rest / unit)
            return f"{whole + tenths // 10}.{tenths % 10}{suffix}" if rest else f"{whole}{suffix}"
    return str(amount)


def _rank(resource: str) -> tuple[int, str]:
    first = (CPU, MEMORY, PODS)
    return (first.index(resource) if resource in first else len(first), resource)
