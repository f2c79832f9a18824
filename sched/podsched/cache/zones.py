"""The zones of nodes, by their labels."""

from __future__ import annotations

from collections.abc import Mapping

_ZONE = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_key(labels: Mapping[str, str]) -> str:
    """Return region and zone as one key, "" for neither (component-helpers' GetZoneKey)."""
    zone = _first(labels, _ZONE)
    region = _first(labels, _REGION)
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_of(labels: Mapping[str, str]) -> str:
    """Return the zone without its region, for users to read; "" for none."""
    return next((labels[name] for name in reversed(_ZONE) if labels.get(name)), "")


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    for key in keys:
        if key in labels:
            return labels[key]
    return ""
