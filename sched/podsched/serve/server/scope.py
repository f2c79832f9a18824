"""Finds the objects that a request is about: one by its name, or several by a selection.

A list, watch or bulk deletion selects by kinds, namespace, labels and fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.etcd_keys import local_key
from podsched.api.field_selectors import FieldSelector, check_fields, parse_field_selector
from podsched.api.kinds import KINDS, Kind, UnknownKindError, find_kind
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.selectors import Selector, SelectorError, parse_selector
from podsched.serve.server import errors
from podsched.serve.server.change_ring import NAME, NODE_NAME, Change, Topic
from podsched.serve.server.entries import Entry
from podsched.v1.api_pb2 import ADDED, DELETED

#: Max characters of a name: a DNS subdomain.
_MAX_NAME = 253


def kind_named(name: str) -> Kind:
    """Return a kind by name. Raises ApiError."""
    if not name:
        raise errors.bad_request("kind must be specified", "kind")
    try:
        return find_kind(name)
    except UnknownKindError as error:
        raise errors.bad_request(str(error), "kind") from None


def local_namespace(kind: Kind, namespace: str) -> str:
    """Return the namespace of a request, completed by the default."""
    return (namespace or DEFAULT_NAMESPACE) if kind.namespaced else ""


def address_of(kind_name: str, namespace: str, name: str) -> tuple[Kind, str]:
    """Return the kind and local key of the object in a request. Raises ApiError."""
    kind = kind_named(kind_name)
    if not name:
        raise errors.bad_request("name must be specified", "name")
    for field, value in (("name", name), ("namespace", namespace)):
        if len(value) > _MAX_NAME:
            # No object has such a name, and a long one would be copied into keys and messages.
            raise errors.bad_request(f"{field} must be no more than {_MAX_NAME} characters", field)
    return kind, local_key(kind, local_namespace(kind, namespace), name)


def selected(field_selector: str, field: str) -> str:
    """Return the only value of a field that a field selector permits; "" if it names none.

    An invalid selector is refused later.
    """
    if field not in field_selector:
        return ""
    try:
        return parse_field_selector(field_selector).wanted(field) or ""
    except SelectorError:
        return ""


def selected_name(field_selector: str) -> str:
    """Return the name of the only object that a field selector permits; "" if it names none.

    As in Kubernetes, the right to this object is enough.
    """
    return selected(field_selector, NAME)


class Scope:
    """A compiled selection of objects; no kinds mean all kinds, "" any namespace.

    Raises ApiError for unknown kinds and invalid selectors.
    """

    __slots__ = ("_fields", "_labels", "_local_prefix", "every_object", "kinds")

    def __init__(
        self,
        kinds: Iterable[str],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        """Compile a selection. kinds: names in any form that ``find_kind`` accepts."""
        named = [kind_named(name) for name in kinds] or list(KINDS.values())
        self.kinds = {kind.name: kind for kind in named}
        self._local_prefix = f"{namespace}/" if namespace else ""
        self._labels: Selector | None = None
        self._fields: FieldSelector | None = None
        try:
            if label_selector.strip():
                self._labels = parse_selector(label_selector)
        except SelectorError as error:
            raise errors.bad_request(str(error), "labelSelector") from None
        try:
            if field_selector.strip():
                self._fields = parse_field_selector(field_selector)
                for kind in named:
                    check_fields(self._fields, kind.message.DESCRIPTOR)
        except SelectorError as error:
            raise errors.bad_request(str(error), "fieldSelector") from None
        #: Whether it matches all objects of its kinds.
        self.every_object = not (namespace or self._labels or self._fields)

    @property
    def topics(self) -> Sequence[Topic]:
        """The topics of all changes that can be events of a watch."""
        name = self._fields.wanted(NAME) if self._fields is not None else None
        node = self._fields.wanted(NODE_NAME) if self._fields is not None else None
        if name is not None:
            return [(kind, NAME, name) for kind in self.kinds]
        if node is not None and list(self.kinds) == ["Pod"]:
            return [("Pod", NODE_NAME, node)]
        return [(kind, "", "") for kind in self.kinds]

    @property
    def selects(self) -> bool:
        """Whether it has selectors, for which objects must be decoded."""
        return self._labels is not None or self._fields is not None

    def matches(self, entry: Entry) -> bool:
        """Return whether an object of one of the kinds matches."""
        if self.every_object:
            return True
        # Cluster-scoped objects match any namespace: a watch of nodes and pods may have one.
        prefix = self._local_prefix
        if prefix and entry.kind.namespaced and not entry.key.startswith(prefix):
            return False
        if not self.selects:
            return True
        message = entry.message
        if self._labels is not None and not self._labels.matches(message.metadata.labels):
            return False
        return self._fields is None or self._fields.matches(message)

    def event_type(self, change: Change) -> int | None:
        """Return the type of event that a watcher gets for a change; None: no event.

        For this watcher, an object that begins to match is ADDED, one that stops matching DELETED.
        """
        if self.every_object:
            return change.type
        new = change.new is not None and self.matches(change.new)
        old = change.old is not None and self.matches(change.old)
        if new:
            return change.type if old or change.old is None else ADDED
        if old:
            return change.type if change.new is None else DELETED
        return None
