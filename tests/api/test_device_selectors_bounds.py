"""No selector harms who evaluates it: only two errors, and time in proportion to the cost."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.device_selectors import CompileError, Features, compile_selector
from support.cel_expressions import DEVICE, Expressions
from support.examples import examples
from support.processor_time import exceeds

#: CPU seconds for what may take a second where the machine is busy and the cost is a million.
MOST_SECONDS = 5.0
CASES = Path(__file__).parents[1] / "conformance" / "selectors" / "cel-more.jsonl.gz"
with gzip.open(CASES) as _lines:
    TEXTS = sorted({json.loads(line)["expression"] for line in _lines})
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def run(expression: str, features: Features | None = None) -> None:
    """Compile and evaluate; fail if anything but the two errors comes of it, or it takes long."""
    start = time.process_time()
    try:
        selector = compile_selector(expression, features=features)
    except CompileError:
        pass
    else:
        result = selector.result(DEVICE)
        assert result.error is not None or result.cost <= 1_000_000
    assert not exceeds(time.process_time() - start, MOST_SECONDS)


def nested(count: int, body: str) -> str:
    for number in range(count):
        body = f"{TEN}.all(x{number}, {body})"
    return body


def often(count: int, body: str) -> str:
    return f"lists.range({count}).all(x, {body})"


def large(letters: int) -> list[str]:
    """Regular expressions, each of which takes some 20 milliseconds to compile."""
    return [f'"\\\\pL{{{letters}}}{number}"' for number in range(400)]


def grown(count: int, start: str, step: str, body: str) -> str:
    """An expression with a value that is made of its former self again and again."""
    for number in range(count, 0, -1):
        body = f"cel.bind(v{number}, {step.replace('v', f'v{number - 1}')}, {body})"
    return f"cel.bind(v0, {start}, {body})"


BOMBS = {
    "macros within macros": nested(7, "x0 > 0"),
    "parentheses": "(" * 5000 + "true" + ")" * 5000,
    "lists within lists": "[" * 240 + "]" * 240 + " == []",
    "negations": "!" * 90_000 + "true",
    "sums": "+".join(["1"] * 3000) + " > 0",
    "terms": " || ".join(["false"] * 9000),
    "ternaries": "false ? true : " * 240 + "true",
    "selections": "device" + ".a" * 9000,
    "operands that macros use twice": "optional.of(1)" + ".optMap(x, x)" * 60 + ".hasValue()",
    "types of empty lists": "[" + ",".join(["[]"] * 9000) + "].size() > 0",
    "types that double": grown(60, "[]", "{v: v}", "v60 == v60"),
    "types that double, told": grown(60, "[1]", "{v: v}", "v60 + 1 == 1"),
    "types that stand for types that double": grown(60, "[]", "[] + [{v: v}]", "v60 == []"),
    "large types side by side": grown(8, "[1]", "{v: v}", f"[{'v8,' * 33_000}].size() > 0"),
    "lists that double": grown(60, "[1]", "v + v", "v60.size() > 0"),
    "strings that double": grown(60, '"aaaaaaaaaa"', "v + v", "v60.size() > 0"),
    "equal trees": grown(60, "[1]", "[v, v]", "v60 == v60"),
    "equal maps": grown(60, '{"a": 1}', '{"a": v, "b": v}', "v60 == v60"),
    "trees written": grown(60, "[1]", "[v, v]", '"%s".format([v60]) == ""'),
    "trees flattened": grown(60, "[1]", "[v, v]", "v60.flatten(60).size() > 0"),
    "trees searched": grown(60, "[1]", "[v, v]", "[v60].indexOf(v60) == 0"),
    "trees as keys": grown(60, "[1]", "[v, v]", "{1: 2}[dyn(v60)] == 2"),
    "trees as keys of a new map": grown(60, "[1]", "[v, v]", "{v60: 2}.size() == 2"),
    "texts searched from the end": grown(
        15, '"aaaaaaaaaa"', "v + v", "v15.lastIndexOf('ab' + v14) < 0"
    ),
    "durations": grown(15, '"1h1h1h1h1h"', "v + v", often(50, "duration(v15) > duration('1s')")),
    "integers": grown(16, '"0000000000"', "v + v", often(1000, "int(v16) == 0")),
    "times": grown(
        *(16, '"0000000000"', "v + v"),
        "cel.bind(t, '2024-01-01T00:00:00.' + v16 + 'Z', "
        + often(4000, "timestamp(t) > timestamp(0)")
        + ")",
    ),
    "versions": grown(
        *(15, '"a.a.a.a.a."', "v + v"),
        "cel.bind(a, semver('1.0.0-' + v15 + 'a'), cel.bind(b, semver('1.0.0-' + v15 + 'b'), "
        + often(500, "a.compareTo(b) < 0")
        + "))",
    ),
    "queries": grown(
        *(15, '"a&a&a&a&a&"', "v + v"),
        "cel.bind(u, url('/?' + v15), " + often(50, "u.getQuery().size() == 1") + ")",
    ),
    "texts of unknown type": grown(
        20, 'dyn("aaaaaaaaaa")', "v + v", often(9000, "(v20 + v20).size() > 0")
    ),
    "optional values": (
        "cel.bind(v, lists.range(20000).map(x, optional.of(x)), "
        + often(20000, "optional.unwrap(v).size() > 0")
        + ")"
    ),
    "replacements": grown(20, '"aaaaaaaaaa"', 'v.replace("", v)', "v20.size() > 0"),
    "joined": grown(20, '"aaaaaaaaaa"', '["a", "b", "c"].join(v)', "v20.size() > 0"),
    "long lists": "lists.range(1000000000000).size() > 0",
    "long lists joined": "cel.bind(b, lists.range(300000), lists.range(900).all(x, b + b != []))",
    "long lists compared": "cel.bind(b, [lists.range(300000)], lists.range(9000).all(x, b == b))",
    "long lists searched": "cel.bind(b, lists.range(90000), lists.range(90).all(x, !(-1 in b)))",
    "regular expression": f'"{"a" * 5000}".matches("(a*)*(a*)*(a*)*b")',
    "large regular expression": '"a".find("((a{1000}){1000}){1000}") == ""',
    "large regular expressions": " || ".join(f"'a'.matches({p})" for p in large(29)),
    "large regular expressions found": f"[{', '.join(large(28))}].exists(p, 'a'.matches(p))",
    "too large regular expressions": (
        'lists.range(1000).exists(n, "a".matches("\\\\pL{999}" + string(n)))'
    ),
    "matches to the end": f'"{"a" * 9000}".findAll("[\\\\s\\\\S]*b|a").size() > 0',
    "digits": f"{'9' * 90_000} > 0",
    "digits converted": f'int("{"1" * 90_000}") == 1 || double("{"1" * 90_000}") > 0.0',
    "quantity": f'isQuantity("{"1" * 90_000}")',
    "version": f'isSemver("{"1" * 40_000}.{"1" * 40_000}.1")',
    "decimals": '"%.999999999f".format([1.0]) == ""',
    "duration": f'duration("{"1" * 90_000}h") > duration("1h")',
    "host": f'isURL("http://{"a" * 90_000}")',
    "label": f'format.labelValue().validate("{"a" * 90_000}!").hasValue()',
    "an open text": '"' + "\\a" * 40_000,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_expression_takes_longer_than_its_cost_permits(bomb: str) -> None:
    run(BOMBS[bomb])


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(200000).size() > 0",
        " && ".join(["lists.range(900).size() > 0"] * 150),
        f'"{"a" * 4500}".replace("a", "{"b" * 1000}") != ""',
    ],
)
def test_a_selector_does_not_keep_what_it_has_made(expression: str) -> None:
    """Schedulers keep hundreds of selectors: whoever may create claims took gigabytes."""
    compile_selector(expression).matches(DEVICE)
    tracemalloc.start()
    try:
        selector = compile_selector(expression)
        assert selector.matches(DEVICE)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 << 20


@given(st.integers(0, 2**40), st.booleans())
@examples(400)
def test_an_expression_made_of_all_functions_ends_with_a_result_or_one_of_two_errors(
    seed: int, lists: bool
) -> None:
    run(Expressions(Random(seed)).selector(), Features(list_type_attributes=lists))


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS), st.data())
@examples(400)
def test_any_text_compiles_or_is_refused(one: str, other: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(one))] * 2)))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(other))] * 2)))
    run(one[:start] + other[first:last] + data.draw(st.text(max_size=3)) + one[end:])
