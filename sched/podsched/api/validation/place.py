"""Collects the mistakes in an object: a ``Place`` is one of its fields, and knows its path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from operator import attrgetter
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from google.protobuf.message import Message

from podsched.api.codec import write
from podsched.api.field_errors import ErrorType, FieldError, not_supported
from podsched.api.names import NameRule
from podsched.api.quantity_fields import are_same

MAX_ITEMS: Final = 1000
#: Mistakes in one list after which the rest of it is not looked at: a client that sends thousands
#: of empty items would otherwise be told three mistakes of each.
MOST_ERRORS: Final = 100
IMMUTABLE: Final = "field is immutable"
#: Keys of the items of lists.
BY_NAME, BY_UID = attrgetter("name"), attrgetter("uid")

_Item = TypeVar("_Item")
_P = ParamSpec("_P")


class Place:
    """A field of an object (Kubernetes' ``field.Path``), and the list of the object's errors."""

    __slots__ = ("errors", "path")

    def __init__(self, path: str = "", errors: list[FieldError] | None = None) -> None:
        self.path = path
        self.errors: list[FieldError] = [] if errors is None else errors

    def __call__(self, name: str) -> Place:
        """Return the place of a field of this one; ``name`` may lead through several."""
        return Place(f"{self.path}.{name}" if self.path else name, self.errors)

    def fields(self, names: Iterable[str], *messages: Any) -> Iterator[Any]:
        """Yield place and values of fields of this one, in each of the messages that it may be."""
        for name in names:
            found = messages[0].DESCRIPTOR.fields_by_name[name].json_name
            yield (self(found), *(getattr(message, name) for message in messages))

    def __getitem__(self, key: object) -> Place:
        """Return the place of an item of this list, or of an entry of this map."""
        return Place(f"{self.path}[{key}]", self.errors)

    # ------------------------------------------------------------------ one mistake

    def required(self, reason: str = "") -> None:
        """Add the error that the field must be set."""
        self.errors.append(FieldError(self.path, None, reason, ErrorType.REQUIRED))

    def invalid(self, value: object, reason: str) -> None:
        """Add the error that the value breaks a rule."""
        self.errors.append(FieldError(self.path, value, reason))

    def forbidden(self, reason: str) -> None:
        """Add the error that the field may not be set or changed."""
        self.errors.append(FieldError(self.path, None, reason, ErrorType.FORBIDDEN))

    def duplicate(self, value: object, reason: str = "") -> None:
        """Add the error that the value may occur only once."""
        self.errors.append(FieldError(self.path, value, reason, ErrorType.DUPLICATE))

    def not_supported(self, value: object, supported: Iterable[str]) -> None:
        """Add the error that the value is none of those allowed."""
        self.errors.append(not_supported(self.path, value, supported))

    def not_found(self, value: object, reason: str = "") -> None:
        """Add the error that the value names something that does not exist."""
        self.errors.append(FieldError(self.path, value, reason, ErrorType.NOT_FOUND))

    # ------------------------------------------------------------------ rules

    def rule(self, value: str, rule: NameRule) -> bool:
        """Check a value by a rule of names; return whether it keeps the rule."""
        reasons = rule(value)
        for reason in reasons:
            self.invalid(value, reason)
        return not reasons

    def present(self, value: object, reason: str = "") -> bool:
        """Check that something is set, and not empty; return whether it is."""
        if not value:
            self.required(reason)
        return bool(value)

    def name(self, value: str, rule: NameRule) -> None:
        """Check a name that must be set."""
        if self.present(value):
            self.rule(value, rule)

    def optional_name(self, value: str, rule: NameRule) -> None:
        """Check a name that may be left out."""
        if value:
            self.rule(value, rule)

    def one_of(self, value: str, supported: Collection[str], *, required: bool = False) -> None:
        """Check that a value is supported, or empty unless it is required."""
        if required:
            self.present(value)
        if value and value not in supported:
            self.not_supported(value, supported)

    def least(self, value: int, least: int = 0) -> None:
        """Check that a number is not below a bound."""
        if value < least:
            self.invalid(value, f"must be greater than or equal to {least}")

    def within(self, size: int, limit: int) -> bool:
        """Check that something has no more bytes than allowed; return whether."""
        if size > limit:
            reason = f"may not be more than {limit} bytes"
            self.errors.append(FieldError(self.path, None, reason, ErrorType.TOO_LONG))
        return size <= limit

    def between(self, value: int, least: int, most: int) -> None:
        """Check that a number is within bounds."""
        if not least <= value <= most:
            self.invalid(value, f"must be between {least} and {most}, inclusive")

    def once(self, value: Any, seen: set[Any], shown: object = None, reason: str = "") -> None:
        """Check that a value has not been seen, and add it to those that have.

        shown: what the error shows instead of the value, a message as it is written in a manifest.
        """
        if value in seen:
            shown = write(shown) if isinstance(shown, Message) else shown
            self.duplicate(value if shown is None else shown, reason)
        seen.add(value)

    def fixed(self, new: object, old: object, shown: object) -> None:
        """Check that a field that cannot change has not changed; ``shown``: in the error."""
        if not are_same(new, old):
            self.invalid(shown, IMMUTABLE)

    # ------------------------------------------------------------------ lists

    def bounded(self, items: Sized, limit: int = MAX_ITEMS) -> bool:
        """Check that a list has no more items than are worth the time to check; return whether."""
        if len(items) > limit:
            reason = f"must have at most {limit} {'item' if limit == 1 else 'items'}"
            self.errors.append(FieldError(self.path, len(items), reason, ErrorType.TOO_MANY))
            return False
        return True

    def each(
        self,
        items: Collection[_Item],
        limit: int = MAX_ITEMS,
        key: Callable[[_Item], Any] | None = None,
    ) -> Iterator[tuple[Place, _Item]]:
        """Yield place and value of each item of a list; then check that their keys differ.

        Nothing is yielded of a list with too many items; after MOST_ERRORS errors, the rest is
        left out.
        """
        path, errors = self.path, self.errors
        for index, item in _worth_checking(self, items, limit):
            yield Place(f"{path}[{index}]", errors), item
        if key and len(items) <= limit:
            self.different(items, key)

    def different(
        self,
        items: Collection[_Item],
        key: Callable[[_Item], Any],
        shown: Callable[[_Item], Any] | None = None,
    ) -> None:
        """Check that no two items of a list have the same key; ``shown``: in the error."""
        seen: set[Any] = set()
        for index, item in enumerate(items if len(items) <= MAX_ITEMS else ()):
            self[index].once(key(item), seen, shown(item) if shown else None)

    def keys(self, items: Collection[_Item], limit: int = MAX_ITEMS) -> Iterator[_Item]:
        """Yield the keys of a map, as many as ``each`` yields."""
        for _, key in _worth_checking(self, items, limit):
            yield key


def _worth_checking(at: Place, items: Collection[_Item], limit: int) -> Iterator[tuple[int, _Item]]:
    if not items or not at.bounded(items, limit):
        return
    enough = len(at.errors) + MOST_ERRORS
    for index, item in enumerate(items):
        if len(at.errors) >= enough:
            return
        yield index, item


def errors_of(
    check: Callable[Concatenate[Place, _P], None], *args: _P.args, **kwargs: _P.kwargs
) -> list[FieldError]:
    """Return the errors that a check finds in an object."""
    at = Place()
    check(at, *args, **kwargs)
    return at.errors
