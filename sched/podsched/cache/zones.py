"""The zones of nodes, by their labels."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.node_labels import BETA_REGION, BETA_ZONE, REGION, ZONE


def zone_key(labels: Mapping[str, str]) -> str:
    """Return region and zone as one key, "" for neither (component-helpers' GetZoneKey)."""
    # The deprecated labels win, as in GetZoneKey.
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_of(labels: Mapping[str, str]) -> str:
    """Return the zone without its region, for users to read; "" for none."""
    return labels.get(ZONE) or labels.get(BETA_ZONE, "")
