"""Functions of messages that need no kind."""

from __future__ import annotations

import pytest

from podsched.api.objects import Container, PodSpec, copy_field


@pytest.mark.parametrize(
    "given",
    [
        PodSpec(node_name="n1"),
        PodSpec(active_deadline_seconds=0),
        PodSpec(node_selector={"disk": "ssd"}),
        PodSpec(tolerations=[{"key": "a"}, {"key": "b"}]),
        PodSpec(affinity={"node_affinity": {}}),
    ],
    ids=["text", "number that may be absent", "map", "list", "message"],
)
def test_a_field_is_copied_as_it_is_in_another_message_even_if_it_is_absent_there(
    given: PodSpec,
) -> None:
    ((field, _),) = given.ListFields()
    made = PodSpec()
    copy_field(made, given, field.name)
    assert made == given
    copy_field(made, PodSpec(), field.name)
    assert made == PodSpec()


def test_a_message_that_is_there_and_empty_is_there_in_the_copy() -> None:
    given, made = Container(), Container()
    given.resources.SetInParent()
    copy_field(made, given, "resources")
    assert made.HasField("resources")
