"""kubectl's JSONPath templates: ``{.items[*].metadata.name}``, with ``range`` and quoted text.

Braces contain a query, or text in double quotes; text outside is printed as it is.
``python-jsonpath`` evaluates queries. It is imported when needed, because that takes a tenth of a
second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

_BRACES = re.compile(r"\{((?:[^{}\"']|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')*)\}")
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_UNION = re.compile(rf"\[\s*({_QUOTED}(?:\s*,\s*{_QUOTED})+)\s*\]")
#: A name in brackets, a text in a filter, or a name after a dot or two.
_PART = re.compile(
    rf"\[\s*(?P<key>{_QUOTED})\s*\]|{_QUOTED}|(?P<dots>\.\.?)(?P<name>(?:[\w/-]|\\.)+)"
)

Node = tuple[str, Any]
"""``text`` with a string, ``query`` with a compiled query, ``range`` with a query and nodes."""


class TemplateError(ValueError):
    """The template is invalid; the message says where."""


def parse_template(text: str) -> list[Node]:
    """Return the parts of a template. Raises TemplateError."""
    if "{" not in text:
        text = "{" + text + "}"
    tokens = list(_tokens(text))
    nodes, rest = _nodes(tokens, 0)
    if rest != len(tokens):
        raise TemplateError(f"{text!r} has an {{end}} without a {{range}}")
    return nodes


def render(nodes: Sequence[Node], data: Any) -> str:
    """Return the text of a template for some data; missing fields are empty."""
    parts: list[str] = []
    for kind, value in nodes:
        if kind == "text":
            parts.append(value)
        elif kind == "query":
            parts.append(" ".join(map(as_text, _found(value, data))))
        else:
            query, body = value
            parts += [render(body, found) for found in _found(query, data)]
    return "".join(parts)


def _found(query: Any, data: Any) -> list[Any]:
    if isinstance(data, str):  # The library would read it as a JSON document.
        return [data] if str(query) == "$" else []
    return list(query.findall(data))


def query_of(text: str) -> Any:
    """Return the compiled query of ``.spec.nodeName`` or ``{.spec.nodeName}``.

    Raises TemplateError.
    """
    path = text.strip()
    if path.startswith("{") != path.endswith("}"):
        raise TemplateError(f"{path!r} has a brace without its partner")
    return _compiled(path.removeprefix("{").removesuffix("}"))


def as_text(value: Any) -> str:
    """Return a value as kubectl prints it: strings as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _tokens(text: str) -> Iterator[Node]:
    at = 0
    for match in _BRACES.finditer(text):
        if match.start() > at:
            yield "text", text[at : match.start()]
        yield _action(match[1].strip())
        at = match.end()
    rest = text[at:]
    if "{" in rest or "}" in rest:
        raise TemplateError(f"{rest!r} has a brace without its partner")
    if rest:
        yield "text", rest


def _action(text: str) -> Node:
    if text[:1] in ("'", '"'):
        if len(text) < 2 or text[-1] != text[0]:
            raise TemplateError(f"{text} has a quote without its partner")
        escapes = {"n": "\n", "r": "\r", "t": "\t"}
        return "text", re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), text[1:-1])
    if text == "end":
        return "end", None
    if text.startswith("range "):
        return "range", _compiled(text.removeprefix("range "))
    return "query", _compiled(text)


def _nodes(tokens: Sequence[Node], at: int) -> tuple[list[Node], int]:
    nodes: list[Node] = []
    while at < len(tokens) and tokens[at][0] != "end":
        kind, value = tokens[at]
        at += 1
        if kind == "range":
            body, at = _nodes(tokens, at)
            if at == len(tokens):
                raise TemplateError("{range} has no {end}")
            value, at = (value, body), at + 1
        nodes.append((kind, value))
    return nodes, at


def _compiled(text: str) -> Any:
    """Compile a query; a leading ``$`` or ``@`` is optional, and an escaped dot is part of a name.

    Raises TemplateError.
    """
    body = text.strip()
    if body[:1] in ("$", "@"):
        body = body[1:]
    elif body and body[0] not in ".[":
        body = "." + body
    paths = [""] if body == "." else _alternatives(body)
    import jsonpath  # not above: see there

    try:
        return _environment().compile(" | ".join(f"${_PART.sub(_plain, path)}" for path in paths))
    except (jsonpath.JSONPathError, ValueError, OverflowError, re.error) as error:
        # The library lets some errors pass.
        reason = str(error).splitlines()[0]
        raise TemplateError(f"{text.strip()!r} is not a JSONPath: {reason}") from None


@cache
def _environment() -> Any:
    from jsonpath import JSONPathEnvironment, NodeList  # not above: see there

    class Environment(JSONPathEnvironment):
        def compare(self, left: object, operator: str, right: object) -> bool:
            if operator == "!=" and NodeList() in (left, right):
                return False  # A missing field is not compared.
            return super().compare(left, operator, right)

    return Environment()


def _alternatives(body: str) -> list[str]:
    """Return a path for each name of ``['metadata.name','spec']``; these are paths themselves."""
    union = _UNION.search(body)
    if union is None:
        return [body]
    before, after = body[: union.start()], body[union.end() :]
    names = re.findall(_QUOTED, union[1])
    return [path for name in names for path in _alternatives(f"{before}.{name[1:-1]}{after}")]


def _plain(part: re.Match[str]) -> str:
    """Return a part of a path without the escapes that only kubectl has."""
    key, name = part["key"], part["name"]
    descends = part["dots"] == ".."
    if key is None and not descends and (name is None or name.isidentifier()):
        return part[0]
    plain = json.dumps(re.sub(r"\\(.)", r"\1", name or key[1:-1]))
    return f"{'..' if descends else ''}[{plain}]"
