"""The fields of an entry in the register of kinds, and the verbs of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Any, cast

from podsched.api import columns as c
from podsched.api import objects as o
from podsched.v1.objects_pb2 import Object

READ = ("get", "list", "watch")
CHANGE = ("patch", "update")
WRITE = ("create", "delete", "deletecollection", *CHANGE)
VERBS = tuple(sorted((*READ, *WRITE)))


class Access(IntEnum):
    """Kubernetes' roles of a namespace, each of which includes those before it."""

    NONE = 0
    VIEW = 1
    EDIT = 2
    ADMIN = 3


class Generation(Enum):
    """How Kubernetes counts ``metadata.generation``."""

    NONE = auto()
    FIXED = auto()
    COUNTED = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of object."""

    message: type[Any]
    short_names: tuple[str, ...] = ()
    api_version: str = "v1"
    namespaced: bool = True
    columns: tuple[c.Column, ...] = c.table()
    #: Values of fields that a client has not set; ``defaulting`` fills in the rest.
    defaults: Mapping[str, object] = field(default_factory=dict)
    #: The module of ``validation`` with the functions that check its objects, each called
    #: validate_KIND, with _creation, _update, _replacement, _status or _status_update added. Not
    #: imported here: programs that only read and print objects need no rules.
    rules: str = ""
    #: Its fields that no update changes; the module with its rules checks what else stays.
    fixed: tuple[str, ...] = ()
    #: The function of ``names`` that checks its objects' names.
    name_rule: str = "dns1123_subdomain"
    #: The least of Kubernetes' roles of a namespace that may write it; VIEW may only read it.
    role: Access = Access.NONE
    verbs: tuple[str, ...] = VERBS
    #: Its subresources beside "status", which each message with such a field has.
    subresources: tuple[str, ...] = ()
    #: Whether it is of Kubernetes' category "all": what ``kubectl get all`` shows.
    in_all: bool = False
    #: Fields by which lists and watches are selected, beside those of the metadata.
    selectable: tuple[str, ...] = ()
    generation: Generation = Generation.NONE
    #: Whether an update must name the resourceVersion of what it replaces.
    needs_version: bool = False
    #: Whether a client may bring a status along: a node registers itself with what it has.
    status_at_creation: bool = False
    #: Whether its deletion is answered with the object; otherwise with a ``Status``.
    answers_deletion: bool = False
    #: Whether the garbage collector never deletes it, even if its owner is gone: what a cluster is
    #: made of and configured with. So the leader, which runs it, needs no right to delete it.
    kept: bool = False
    #: Whether its contents are secret: it is read by who may write it, its contents are in no
    #: audit record, and no part of podsched but the API server has them.
    secret: bool = False

    name: str = field(init=False)
    plural: str = field(init=False)
    #: The name of its field in the message ``Object``.
    oneof_field: str = field(init=False)
    has_status: bool = field(init=False)

    def __post_init__(self) -> None:
        descriptor = self.message.DESCRIPTOR
        members = Object.DESCRIPTOR.fields
        found = {
            "name": descriptor.name,
            "plural": _plural(descriptor.name.lower()),
            "oneof_field": next(m.name for m in members if m.message_type is descriptor),
            "has_status": "status" in descriptor.fields_by_name,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def group(self) -> str:
        """The API group, "" for the core one."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """Its name in messages: "pods", "poddisruptionbudgets.policy"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_optional(self) -> bool:
        """Whether a Kubernetes cluster may lack the kind: alpha, beta, or of v1.34 and later."""
        optional = ("alpha", "beta", "resource.k8s.io")
        return any(part in self.api_version for part in optional)

    def new(self) -> o.AnyObject:
        """Return an empty object of this kind."""
        return cast(o.AnyObject, self.message())


def _plural(singular: str) -> str:
    """Return the resource of a kind (meta.UnsafeGuessKindToResource)."""
    if singular.endswith("y"):
        return f"{singular[:-1]}ies"
    if singular.endswith("ss"):
        return f"{singular}es"
    return f"{singular.removesuffix('s')}s"  # endpoints
