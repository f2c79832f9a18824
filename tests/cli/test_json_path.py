"""JSONPath templates as kubectl has them."""

from __future__ import annotations

import pytest

from podsched.cli.json_path import TemplateError, parse_template, render

PODS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"example.com/x": "1"}}, "spec": {"priority": 5}},
        {"metadata": {"name": "b"}, "spec": {"ready": True, "image": "r.io/a-b:1", "é": ["x"]}},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[0].metadata.name", "a"),
        ("{$.items[1].spec}", '{"image":"r.io/a-b:1","ready":true,"é":["x"]}'),
        ('{.items[?(@.metadata.name=="b")].spec.ready}', "true"),
        (r"{.items[0].metadata.labels.example\.com/x}", "1"),
        ("{.items[*].metadata['name']}", "a b"),
        (r"{.items[0].metadata.labels['example\.com/x']}", "1"),
        ("{.items[*]['metadata.name', 'spec.priority']}", "a b 5"),
        ('{.items[?(@.spec.image=="r.io/a-b:1")].metadata.name}', "b"),
        ("{.items[?(@.spec.priority!=4)].metadata.name}", "a"),
        ("{range .items[*].metadata.name}{@}{.x}{'\\r\\n'}{end}", "a\r\nb\r\n"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.priority}{"\\n"}{end}', "a\t5\nb\t\n"),
        ("pods: {.items[*].metadata.name}!", "pods: a b!"),
        (r"{..example\.com/x} {..none-such}{..in}", "1 "),
        ("{.nothing.here}", ""),
        ("{range .items[*]}{range .metadata}{.name}{end};{end}", "a;b;"),
    ],
)
def test_a_template_selects_fields(template: str, text: str) -> None:
    assert render(parse_template(template), PODS) == text


@pytest.mark.parametrize(
    ("template", "mistake"),
    [
        ("{.items[}", "is not a JSONPath"),
        ("{.items[1e3]}", "is not a JSONPath: invalid literal"),
        ("{.items[?(@.a<1e999)]}", "is not a JSONPath: cannot convert float infinity"),
        ("{.items[?(@.a =~ /[/)]}", "is not a JSONPath: unterminated character set"),
        ("{range .items[*]}{.metadata.name}", "{range} has no {end}"),
        ("{.a}{end}", "without a {range}"),
        ("{.a} }", "a brace without its partner"),
        ('{"a}', "a brace without its partner"),
    ],
)
def test_a_mistake_in_a_template_is_named(template: str, mistake: str) -> None:
    with pytest.raises(TemplateError, match=mistake.replace("{", r"\{").replace("}", r"\}")):
        parse_template(template)
