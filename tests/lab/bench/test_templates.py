"""Expressions in templates."""

from __future__ import annotations

import pytest

from podsched.api.objects import Pod
from podsched.lab.bench.templates import Template, TemplateError, compile_expression


def pod(**spec: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p-{{index}}"}, "spec": spec}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("index", 7), ("index % 3 + 1", 2), ("2 * (index - 1)", 12), (" index // 2 ", 3), ("5", 5)],
)
def test_an_expression_computes_from_the_index(text: str, expected: int) -> None:
    assert compile_expression(text)(7) == expected


@pytest.mark.parametrize(
    "text",
    ["", "index +", "name", "index ** 9", "index / 2", "index % 0", "1 % (index - 5)", "f(index)",
     "index if 1 else 2", "True", "1.5", "'a'", "__import__('os')", "1" * 101],
)  # fmt: skip
def test_an_expression_can_do_nothing_else(text: str) -> None:
    with pytest.raises(ValueError):
        compile_expression(text)


def test_a_template_gives_each_index_an_object_of_its_own() -> None:
    container = {"name": "c", "image": "app-{{index % 2}}:{{index}}"}
    template = Template(pod(containers=[container, {"name": "d", "image": "same"}]))
    third = template.at(3)
    assert isinstance(third, Pod)
    assert third.metadata.name == "p-3"
    assert [c.image for c in third.spec.containers] == ["app-1:3", "same"]


def test_braces_that_are_no_expression_stay() -> None:
    labels = {"a": "{x}{{index}}{}", "b": "{}"}
    made = Template({**pod(), "metadata": {"name": "p", "labels": labels}}).at(4)
    assert dict(made.metadata.labels) == {"a": "{x}4{}", "b": "{}"}


def test_int_gives_an_integer() -> None:
    made = Template(pod(priority="{{int(index * 10)}}")).at(3)
    assert isinstance(made, Pod) and made.spec.priority == 30


def test_a_mistake_is_told_with_the_path_of_its_field() -> None:
    document = pod(containers=[{"name": "c"}, {"name": "c", "image": "{{indx}}"}])
    with pytest.raises(TemplateError) as caught:
        Template(document, "podTemplate")
    assert caught.value.path == "podTemplate.spec.containers[1].image"
