"""Assigns calls to flow schemas and priority levels; their names are those of Kubernetes.

    caller                                  flow schema           priority level
    health checks                           (pass no gate)        exempt
    system:masters                          exempt                exempt
    system:kube-scheduler, controllers      kube-scheduler        workload-high
    system:nodes                            system-nodes          system
    service accounts                        service-accounts      workload-low
    everyone else                           global-default        global-default
    invalid credentials: refused            catch-all             catch-all
    without authentication: by method       kube-scheduler, ...   workload-high, global-default

A flow is the calls of one user within a schema. Without authentication (a listener on loopback
without client certificates), a flow is one connection, and a connection that binds pods or writes
their statuses counts as a scheduler's. This protects against accidents, not against malice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podsched.serve.server.access.identity import (
    MASTERS,
    NODES,
    SERVICE_ACCOUNTS,
    Authentication,
    Identity,
)

_CONTROL_PLANE: Final = frozenset({"system:kube-scheduler", "system:kube-controller-manager"})
#: Methods that mark a connection as a scheduler's, without authentication.
_SCHEDULER_CALLS: Final = frozenset({"Bind", "BindPods", "PatchPodStatuses"})


@dataclass(frozen=True, slots=True)
class PriorityLevel:
    """Limits of a level: concurrent and waiting calls.

    seats: max concurrent calls. queue_length: max waiting calls of a flow; by default as many as a
    connection may have, since a client that another server has left may send as many at once.
    shared: whether its flows share the event loop's time; flows of other levels are never delayed
    for it.
    """

    name: str
    seats: int
    queue_length: int = 100
    shared: bool = True


#: Its calls never wait.
EXEMPT: Final = PriorityLevel("exempt", 0, shared=False)
WORKLOAD_HIGH: Final = PriorityLevel("workload-high", 200, 200, shared=False)
SYSTEM: Final = PriorityLevel("system", 200, 200, shared=False)
WORKLOAD_LOW: Final = PriorityLevel("workload-low", 100)
GLOBAL_DEFAULT: Final = PriorityLevel("global-default", 100)
#: Its calls are refused at a limited rate.
CATCH_ALL: Final = PriorityLevel("catch-all", 0, shared=False)

LEVELS: Final = (EXEMPT, WORKLOAD_HIGH, SYSTEM, WORKLOAD_LOW, GLOBAL_DEFAULT, CATCH_ALL)


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """A flow schema, which assigns calls to a level."""

    name: str
    level: PriorityLevel


_MASTERS = FlowSchema("exempt", EXEMPT)
_SCHEDULER = FlowSchema("kube-scheduler", WORKLOAD_HIGH)
_NODES = FlowSchema("system-nodes", SYSTEM)
_ACCOUNTS = FlowSchema("service-accounts", WORKLOAD_LOW)
_DEFAULT = FlowSchema("global-default", GLOBAL_DEFAULT)
UNAUTHENTICATED: Final = FlowSchema("catch-all", CATCH_ALL)

SCHEMAS: Final = (_MASTERS, _SCHEDULER, _NODES, _ACCOUNTS, _DEFAULT, UNAUTHENTICATED)


def schema_of(identity: Identity) -> FlowSchema:
    """Return the schema of a caller's calls."""
    if identity.how is Authentication.NONE:
        return _DEFAULT
    if MASTERS in identity.groups:
        return _MASTERS
    if identity.user in _CONTROL_PLANE:
        return _SCHEDULER
    if NODES in identity.groups:
        return _NODES
    return _ACCOUNTS if SERVICE_ACCOUNTS in identity.groups else _DEFAULT


def promoted_schema(method: str) -> FlowSchema | None:
    """Return the schema to which a method moves its unauthenticated connection, or None."""
    return _SCHEDULER if method in _SCHEDULER_CALLS else None
