"""Keep the nodes in kube-scheduler's order: round robin over zones (nodeTree).

It matters only if nodes are sampled (percentageOfNodesToScore) or ties go to the first node.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsched.cache.ordering import in_order

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


class ZoneTree:
    """Node names by zone; zones and nodes in the order in which they were added."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def copy(self) -> ZoneTree:
        """Return an independent copy."""
        made = ZoneTree()
        made._zones = {zone: dict(nodes) for zone, nodes in self._zones.items()}
        made._zone_of = dict(self._zone_of)
        return made

    def put(self, name: str, labels: Mapping[str, str]) -> bool:
        """Add a node, or move it if its zone changed; return False if nothing changed."""
        zone = zone_key(labels)
        known = self._zone_of.get(name)
        if known == zone:
            return False
        if known is not None:
            self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone
        return True

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name)
        nodes = self._zones[zone]
        del nodes[name]
        if not nodes:
            del self._zones[zone]

    def order(self) -> dict[str, list[str]]:
        """Return the nodes by zone, both in their order; for ``put_in_order``."""
        return {zone: list(nodes) for zone, nodes in self._zones.items()}

    def put_in_order(self, order: Mapping[str, list[str]]) -> None:
        """Restore an earlier order of zones and nodes; new ones come last."""
        self._zones = {
            zone: in_order(nodes, order.get(zone, ()))
            for zone, nodes in in_order(self._zones, order).items()
        }

    def names(self) -> list[str]:
        """Return all names: the first of each zone, then the second of each, and so on."""
        columns = [list(nodes) for nodes in self._zones.values()]
        longest = max(map(len, columns), default=0)
        return [nodes[i] for i in range(longest) for nodes in columns if i < len(nodes)]
