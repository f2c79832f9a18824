"""``sched get devices``: the devices of all ResourceSlices, with the claims and pods that use them.

Also lists the claims of a pod with their devices, for ``sched describe``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from podsched.api.columns import NONE
from podsched.api.device_claims import claim_names, known_claim_names, newest_slices
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Device, Pod, ResourceClaim, ResourceSlice
from podsched.cli.client import with_client
from podsched.cli.errors import USAGE, fail
from podsched.cli.formats import Format, dump, parse_format
from podsched.cli.output import say
from podsched.cli.printers import aligned, wrapped
from podsched.lib.counted import listed
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Forbidden, NotFound

WORDS = ("devices", "device")
_FORMATS = ("table", "wide", "json", "yaml")
#: Max claims of a pod that are read for its description.
_MOST_CLAIMS = 32
#: Driver, pool and name of a device.
_Identity = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Row:
    """A device, the nodes that reach it, and the claims that use it."""

    node: str
    identity: _Identity
    document: dict[str, Any]
    users: Sequence[ResourceClaim]


def get_devices(
    targets: Sequence[str], server: str, output: str, field_selector: str, *, alone: bool
) -> None:
    """Print the devices of slices that match a field selector; exit if more is asked.

    ``alone``: there are no other options.
    """
    if not alone or targets[0] not in WORDS or len(targets) > 1:
        fail(
            "get devices takes no names, no other kinds, and of the options only --output and "
            "--field-selector, such as --field-selector spec.nodeName=node-1",
            USAGE,
        )
    if output not in _FORMATS:
        fail(f"get devices: --output must be one of {', '.join(_FORMATS)}", USAGE)
    chosen = parse_format(output)
    with_client(server, lambda client: _show(client, chosen, field_selector))


async def _show(client: ApiClient, chosen: Format, field_selector: str) -> None:
    slices, _ = await client.list("ResourceSlice", field_selector=field_selector)
    claims, _ = await client.list("ResourceClaim", "")
    rows = _rows(cast(list[ResourceSlice], slices), cast(list[ResourceClaim], claims))
    if chosen.manifests:
        print(dump({"kind": "List", "items": [_document(row) for row in rows]}, chosen.name))
    elif rows:
        say(*_table(rows, wide=chosen.name == "wide"))
    else:
        say("No devices found.", error=True)


def _rows(slices: Sequence[ResourceSlice], claims: Iterable[ResourceClaim]) -> list[_Row]:
    """Return the devices by node, driver and pool, in the order of their slices."""
    users: dict[_Identity, list[ResourceClaim]] = {}
    for claim in claims:
        for result in claim.status.allocation.devices.results:
            identity = (result.driver, result.pool, result.device)
            users.setdefault(identity, []).append(claim)
    rows = []
    for piece in newest_slices(slices):
        documents = to_manifest(piece)["spec"].get("devices", ())
        for device, document in zip(piece.spec.devices, documents, strict=True):
            identity = (piece.spec.driver, piece.spec.pool.name, device.name)
            rows.append(_Row(_node(piece, device), identity, document, users.get(identity, ())))
    return sorted(rows, key=lambda row: (row.node, *row.identity[:2]))


def _node(piece: ResourceSlice, device: Device) -> str:
    """Return the node that can use a device, or "<all>" or "<selector>" for several nodes."""
    nodes = device if piece.spec.per_device_node_selection else piece.spec
    if nodes.node_name:
        return str(nodes.node_name)
    return "<all>" if nodes.all_nodes else "<selector>"


def _document(row: _Row) -> dict[str, Any]:
    driver, pool, _ = row.identity
    users = [
        {
            "namespace": claim.metadata.namespace,
            "claim": claim.metadata.name,
            "reservedFor": [consumer.name for consumer in claim.status.reserved_for],
        }
        for claim in row.users
    ]
    return {"node": row.node, "driver": driver, "pool": pool, **row.document, "inUseBy": users}


def _table(rows: Sequence[_Row], *, wide: bool) -> list[str]:
    """Return a line for each device; ``wide``: with its pool and attributes."""
    table = [["NODE", "DRIVER", *(["POOL"] if wide else []), "DEVICE", "IN USE BY"]]
    for row in rows:
        driver, pool, device = row.identity
        in_use = ", ".join(map(_user, row.users)) or NONE
        table.append([row.node, driver, *([pool] if wide else []), device, in_use])
    if not wide:
        return wrapped(table)
    attributes = ["ATTRIBUTES", *(_attributes(row.document) for row in rows)]
    return aligned([[*cells, text] for cells, text in zip(table, attributes, strict=True)])


def _user(claim: ResourceClaim) -> str:
    """Return a claim with the pods that it is reserved for."""
    pods = [str(consumer.name) for consumer in claim.status.reserved_for]
    shown = listed(pods, 2)
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    return f"{name} ({shown})" if shown else name


def _attributes(document: dict[str, Any]) -> str:
    """Return attributes, capacities and taints."""
    attributes = document.get("attributes", {})
    values = {name: next(iter(typed.values())) for name, typed in attributes.items()}
    values |= {name: entry["value"] for name, entry in document.get("capacity", {}).items()}
    taints = [f"taint {one['key']}:{one['effect']}" for one in document.get("taints", ())]
    shown = [f"{name}={_text(value)}" for name, value in sorted(values.items())]
    return " ".join([*shown, *taints]) or NONE


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


async def claims_of(client: ApiClient, pod: Pod) -> list[AnyObject]:
    """Return the claims of a pod that exist and may be read."""
    found: list[AnyObject] = []
    for name in islice(known_claim_names(pod), _MOST_CLAIMS):
        with contextlib.suppress(NotFound, Forbidden):
            found.append(await client.get("ResourceClaim", name, pod.metadata.namespace))
    return found


def claim_lines(pod: Pod, claims: Sequence[Any]) -> list[str]:
    """Return a line for each claim of a pod: its name, and its devices as POOL/DEVICE."""
    known = {claim.metadata.name: claim for claim in claims}
    names = _claim_names(pod)
    lines = ["Claims:"] if names else []
    for reference, name in names.items():
        claim = known.get(name)
        if claim is None:
            state = "does not exist, or may not be read" if name else "not created yet"
        elif not claim.status.HasField("allocation"):
            state = "pending"
        else:
            results = claim.status.allocation.devices.results
            state = ", ".join(f"{one.pool}/{one.device}" for one in results) or "no devices"
        lines.append(f"  {reference}: {f'{name}, ' if name else ''}{state}")
    return lines


def _claim_names(pod: Pod) -> dict[str, str]:
    """Return the names of claims by the pod's own names for them; "" if one is not created yet.

    The pod's name for the claim for extended resources is a list of these resources.
    """
    names = {reference.name: name or "" for reference, name in claim_names(pod)}
    extended = pod.status.extended_resource_claim_status
    if extended.resource_claim_name:
        resources = sorted({one.resource_name for one in extended.request_mappings})
        names[", ".join(resources)] = extended.resource_claim_name
    return names
