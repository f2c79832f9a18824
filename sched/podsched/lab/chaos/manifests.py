"""Nodes, and what the API servers write down of fenced calls, as files for the processes."""

from __future__ import annotations

from typing import Any, Final

import yaml

ZONE: Final = "topology.kubernetes.io/zone"
#: Nodes of a pool of their own, so small that pods have to be preempted there.
POOL, TIGHT = "chaos.podsched.io/pool", "tight"
ZONES: Final = ("a", "b", "c")
#: Nodes of each zone.
OPEN_NODES, TIGHT_NODES = 5, 1


def nodes() -> str:
    """Return the manifests of all nodes."""
    documents = [_node(zone, "open", OPEN_NODES, "4") for zone in ZONES]
    documents += [_node(zone, TIGHT, TIGHT_NODES, "2") for zone in ZONES]
    return yaml.safe_dump_all(documents)


def _node(zone: str, pool: str, count: int, cpu: str) -> dict[str, Any]:
    metadata = {
        "name": f"{pool}-{zone}",
        "annotations": {"podsched.io/count": str(count)},
        "labels": {ZONE: zone, POOL: pool},
    }
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "40"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "status": {"allocatable": allocatable},
    }


def audit_policy() -> str:
    """Return the policy by which API servers write down bindings and evictions."""
    pods = {"group": "", "resources": ["pods/binding", "pods/eviction"]}
    return yaml.safe_dump(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "rules": [{"level": "Metadata", "resources": [pods]}],
        }
    )
