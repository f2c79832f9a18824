"""Of too many items or mistakes the rest is left out, for every list of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from podsched.api.field_errors import FieldError
from podsched.api.kinds import KINDS
from podsched.api.objects import ContainerPort, Pod
from podsched.api.validation import validate, validate_status
from podsched.api.validation.place import MOST_ERRORS, Place

#: Fields on the way to a list, and its own.
Path = tuple[Any, ...]


def lists_of(descriptor: Any, path: Path = (), above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the way to each list below a message, through the first items of other lists."""
    if descriptor.full_name in above or descriptor.full_name.startswith("google."):
        return
    for field in descriptor.fields:
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            continue
        if field.is_repeated:
            yield (*path, field)
        if message is not None:
            yield from lists_of(message, (*path, field), (*above, descriptor.full_name))


def with_items(name: str, path: Path, count: int) -> Any:
    message = KINDS[name].new()
    at: Any = message
    for field in path[:-1]:
        at = getattr(at, field.name)
        at = at.add() if field.is_repeated else at
    items = getattr(at, path[-1].name)
    for _ in range(count):
        items.add() if path[-1].message_type is not None else items.append(
            "\u00e4" if path[-1].cpp_type == path[-1].CPPTYPE_STRING else 0
        )
    return message


def found_in(name: str, message: Any) -> Sequence[FieldError]:
    other = KINDS[name].new()
    found = [*validate(name, message, other), *validate(name, other, message)]
    return [*found, *validate_status(name, message, other)] if KINDS[name].has_status else found


@pytest.mark.parametrize("name", KINDS)
def test_empty_items_by_the_thousand_are_not_told_one_by_one(name: str) -> None:
    told = {
        ".".join(field.name for field in path): len(found_in(name, with_items(name, path, 1200)))
        for path in lists_of(KINDS[name].new().DESCRIPTOR)
        if name == "Pod" or path[0].name != "metadata"
    }
    assert {path: count for path, count in told.items() if count > 5 * MOST_ERRORS} == {}


def test_of_a_list_that_is_too_long_no_item_is_looked_at() -> None:
    at = Place("spec.containers")
    assert not [*at.each(range(1001))]
    assert [str(error) for error in at.errors] == [
        "spec.containers: Too many: 1001: must have at most 1000 items"
    ]


def test_after_enough_mistakes_the_rest_of_a_list_is_left_out() -> None:
    pod = Pod(metadata={"name": "a", "namespace": "b"})
    for _ in range(900):
        pod.spec.containers.add(name="\u00e4").ports.extend([ContainerPort()] * 900)
    containers = [e for e in validate("Pod", pod) if e.path.startswith("spec.containers")]
    assert MOST_ERRORS <= len(containers) < 3 * MOST_ERRORS
