"""CEL selectors of devices: what the recorded cases of tests/conformance do not say."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.cel.syntax import conjuncts
from podsched.api.device_selectors import (
    CompileError,
    Device,
    EvaluationError,
    Features,
    compile_selector,
)
from podsched.api.quantity import parse
from support.cel_expressions import DEVICE, DOMAIN
from support.examples import examples

ATTRIBUTES = f'device.attributes["{DOMAIN}"]'
CAPACITY = f'device.capacity["{DOMAIN}"]'


def matches(expression: str, device: Device = DEVICE) -> bool:
    return compile_selector(expression).matches(device)


@pytest.mark.parametrize(
    "expression",
    [
        # Operators and their order.
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "-7 / 2 == -3 && -7 % 2 == -1",
        "false ? false : true ? true : false",
        "!!true && --1 == 1",
        "1 < 2 == true",
        "[1, 2, 3,].size() == 3 && {1: 2,}.size() == 1",
        "// a comment\ntrue // and another",
        # Literals.
        "0x1F == 31 && 1.5e3 == 1500.0 && 5u == uint(5)",
        r"'\x41\u00e9\101\t' == 'AéA' + '\u0009' && '''a'b'''.size() == 3",
        r"r'\n'.size() == 2 && b'\xff'.size() == 1",
        "-9223372036854775808 < 0",
        # Values of different types.
        "dyn(1) == 1.0 && dyn(1u) == 1 && dyn('1') != 1",
        # An integer and a double are compared as doubles.
        "dyn(9007199254740993) == 9007199254740992.0 && !(9007199254740993 > 9007199254740992.0)",
        "dyn(9007199254740992.0) in [9007199254740993]",
        "[1, 2] == [1, 2] && {'a': 1} == {'a': 1} && [] == []",
        "{true: 1, false: 2}[true] == 1",
        "dyn({1: 'a'})[1.0] == 'a'",
        "1u in dyn([1]) && !(dyn('a') in dyn([1]))",
        "!(dyn([1]) in device.attributes) && !(dyn({'a': 1}) in device.capacity)",
        # Macros.
        "[[1, 2], [3]].all(x, x.exists(y, y % 2 == 1))",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
        "['a', 'b'].all(i, v, i < 2 && v < 'c')",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'}",
        "[1, 2, 3].map(x, x > 1, x * x) == [4, 9]",
        "cel.bind(x, 1, cel.bind(y, x + 1, x + y)) == 3",
        "optional.of(2).optFlatMap(x, optional.of(x * 2)).value() == 4",
        # A variable of a macro hides the device.
        "[1].all(device, device == 1)",
        # Not evaluated, so it does not fail.
        f"cel.bind(x, {ATTRIBUTES}.none, true)",
        # Optional values.
        "!optional.ofNonZeroValue(0).hasValue()",
        "optional.ofNonZeroValue(optional.none()).hasValue()",
        "[?optional.none(), 1] == [1] && {?'a': optional.none()} == {}",
        "{'a': {'b': 1}}.?a.b.value() == 1",
        "!{'a': 1}.?b.hasValue() && [1][?3].orValue(7) == 7",
        "has({'a': 1}.a) && !has({'a': 1}.b)",
        "has({'a': {'b': 1}}.?a.b) && !has({'a': {'b': 1}}.?a.c) && !has({'a': {'b': 1}}.?b.c)",
        f"has(device.attributes[?'{DOMAIN}'].model) && !has(optional.none().model)",
        # Strings.
        "'größe'.upperAscii() == 'GRößE' && 'größe'.size() == 5",
        "'a-b-c'.split('-', 2) == ['a', 'b-c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'banana'.replace('a', 'o', 2) == 'bonona' && 'ab'.replace('', '-') == '-a-b-'",
        "'abcabc'.lastIndexOf('b') == 4 && 'abcabc'.indexOf('b', 2) == 4",
        "'%s is %s'.format(['a', 'b']) == 'a is b'",
        "'%s is %d'.format([dyn('a'), 1]) == 'a is 1'",
        "'%s is %d'.format(['a', 1]) == 'a is 1' && '%s'.format([{'a': 1, 'b': 'c'}]) != ''",
        r"""'%s'.format([['\r\u200b']]) == '["\\r\\u200b"]'""",
        r"""'%s'.format([[b'\x01']]) == '[b"\\x01"]'""",
        """'%s'.format([[double('inf'), 1.5]]) == '["+Inf", 1.500000]'""",
        "quantity('1e400').asApproximateFloat() == 1e308 * 1e308",
        "quantity('-9e999').asApproximateFloat() < -1e308",
        "isQuantity('-') && isQuantity('Ki') && sign(quantity('+.m')) == 0 && !isQuantity('')",
        "double('1_000.5e1') == 10005.0 && double('.5') == 0.5 && double('-Infinity') < 0.0",
        "string(1.5) == '1.5' && string(123456789.0) == '1.23456789e+08'",
        "'baaac'.findAll('a*') == ['', 'aaa', '']",
        "'abc'.matches('^a.c$') && !'abc'.matches('^b')",
        r"r'\C'.matches(r'^\Q\C\E$') && r'\C'.matches(r'^\\C$')",
        # Times.
        "timestamp('2024-02-29T12:00:00Z') + duration('24h') == timestamp('2024-03-01T12:00:00Z')",
        "timestamp('2024-01-01T1:00:00Z').getHours() == 1",
        f"timestamp('2024-01-01T01:00:00.5{'0' * 30}Z').getMilliseconds() == 500",
        "timestamp('2024-02-29T23:00:00Z').getDate('Europe/Berlin') == 1",
        "string(duration('1m30.5s')) == '90.5s' && string(duration('-1ns')) == '-0.000000001s'",
        # Kubernetes' types.
        "quantity('1Ki') == quantity('1024') && quantity('-1').isLessThan(quantity('0'))",
        "quantity('1').add(1) == quantity('2')",
        "!quantity('1000m').isInteger() && quantity('1').asInteger() == 1",
        "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && isSemver('v1.2', true)",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isIP('::ffff:1.2.3.4')",
        "url('https://[::1]:80/a%20b?x=1&x=2').getQuery()['x'] == ['1', '2']",
        "url('https://a.example:80/').getHost() == 'a.example:80'",
        "url('//a.example/p').getHost() == 'a.example' && isURL('//a b') && isURL('http://a@b@c')",
        "url('mailto:a@b').getEscapedPath() == '' && isURL('a:%zz')",
        "url('http://a/p#f?x=1').getQuery() == {} && url('HTTP://a') == url('http://a')",
        "url('http://a/b%2fc').getEscapedPath() == '/b%2fc'",
        "url('http://a/b%2fc (d)').getEscapedPath() == '/b/c%20%28d%29'",
        "!format.dns1123Label().validate('my-name').hasValue()",
        "!format.datetime().validate('2024-01-01t00:00:00,5+30:00').hasValue()",
        "format.datetime().validate('2024-01-01T24:00:00Z').hasValue()",
        "format.dns1123Label().validate('a.b').value() == ['must not contain dots']",
        "format.dns1035Label().validate('1a').hasValue()",
        "!format.dns1035LabelPrefix().validate('my-').hasValue()",
        "format.qualifiedName().validate('a/b/c').value()[0].startsWith('a valid label key')",
        "sets.equivalent([1, 1, 2], [2, 1])",
        "lists.range(3) == [0, 1, 2] && [[[1]], [[2]]].flatten(2) == [1, 2]",
        "type(1) == int && type('') == string && type([]) == list",
    ],
)
def test_the_language(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "true ? 1",
        "'a",
        "`a`",
        "1 == '1'",
        "[1, 'a'].size() == 2",
        "for == 1",
        "all([1], x, true)",
        "[1].all(1, true)",
        "[1].existsOne(x, x == 1)",
        "has(device)",
        "device.attributes.exists(x.y, true)",
        "'a'.matches('(')",
        r"'é'.find(r'a\C') == ''",
        "duration('1x') == duration('1s')",
        "duration(1) == duration('1s')",
        "int('a') == 1",
        "double('+nan') != 1.0",
        "double('\uff11') == 1.0",
        "99999999999999999999 > 0",
        "device.driver.foo",
        "kubernetes.Quantity{} == quantity('1')",
        f"{CAPACITY}.memory > 1",
        "'%d'.format(['a']) == ''",
        "'%s'.format([[quantity('1')]]) == ''",
    ],
)
def test_what_does_not_compile(expression: str) -> None:
    with pytest.raises(CompileError):
        compile_selector(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{ATTRIBUTES}.none", "no such key: none"),
        ("1 / (2 - 2) == 1", "division by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        (f"{ATTRIBUTES}.model > 1", "no such overload"),
        (f"duration({ATTRIBUTES}.index) > duration('1s')", "type conversion error from 'int'"),
        ("optional.none().value() == 1", "optional.none\\(\\) dereference"),
        (f"{ATTRIBUTES}.fw == '2.10.3'", "no such overload"),
        # Of v1.36: what was computed is compared on the left only.
        ("quantity('2') == quantity('1').add(1)", "no such overload"),
        (f"{ATTRIBUTES}.model", "could not be converted to bool"),
        ("'%s'.format([{1.5: 2}]) == ''", "no formatting function"),
        ("{'a': optional.of({'b': 1})}.a.b.value() == 1", "no such key: b"),
    ],
)
def test_what_fails_for_a_device(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        matches(expression)


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        (f"'abc'.substring(1, {ATTRIBUTES}.none) == 'b'", 6),
        (f"'abc'.substring(int({ATTRIBUTES}.none), 1) == 'b'", 6),
        (f"quantity('1').add({ATTRIBUTES}.none) == quantity('1')", 8),
    ],
)
def test_a_call_costs_also_if_its_last_argument_fails(expression: str, cost: int) -> None:
    assert compile_selector(expression).result(DEVICE).cost == cost


def test_a_version_that_is_none_fails_every_selector() -> None:
    with pytest.raises(EvaluationError, match="attribute fw: parse semantic version"):
        matches("true", Device(DOMAIN, {"fw": {"version": "1"}}))


def test_what_a_gate_adds_cannot_be_used_in_new_objects_without_it() -> None:
    off = Features(consumable_capacity=False)
    for expression in ("device.allowMultipleAllocations", f"{ATTRIBUTES}.model.includes('a')"):
        assert compile_selector(expression, features=off)
        with pytest.raises(CompileError):
            compile_selector(expression, features=off, new=True)


TERMS = {
    "true": True,
    "false": False,
    f"{ATTRIBUTES}.ecc": True,
    f'{ATTRIBUTES}.model == "h100"': False,
    f"{ATTRIBUTES}.none == 1": None,
    f"{ATTRIBUTES}.index / 0 == 1": None,
}
Formula = tuple[str, bool | None]


def both(one: Formula, other: Formula) -> Formula:
    values = (one[1], other[1])
    value = False if False in values else None if None in values else True
    return f"({one[0]} && {other[0]})", value


def either(one: Formula, other: Formula) -> Formula:
    values = (one[1], other[1])
    value = True if True in values else None if None in values else False
    return f"({one[0]} || {other[0]})", value


def neither(one: Formula) -> Formula:
    return f"!({one[0]})", None if one[1] is None else not one[1]


def chosen(condition: Formula, one: Formula, other: Formula) -> Formula:
    value = None if condition[1] is None else one[1] if condition[1] else other[1]
    return f"({condition[0]} ? {one[0]} == true : {other[0]})", value


FORMULAS = st.recursive(
    st.sampled_from(sorted(TERMS)).map(lambda term: (term, TERMS[term])),
    lambda inner: st.one_of(
        st.builds(both, inner, inner),
        st.builds(either, inner, inner),
        st.builds(neither, inner),
        st.builds(chosen, inner, inner, inner),
    ),
    max_leaves=12,
)


@given(FORMULAS)
@examples(200)
def test_an_error_is_absorbed_where_the_other_side_decides(formula: Formula) -> None:
    result = compile_selector(formula[0]).result(DEVICE)
    assert result.match is formula[1]
    assert (result.error is None) is (formula[1] is not None)


AMOUNTS = st.sampled_from(["0", "1", "500m", "1k", "1Ki", "40Gi", "80Gi", "80G", "1e3", "-1"])


@given(
    st.sampled_from(["gpu", "nic"]), st.sampled_from(["a100", "h100", ""]), AMOUNTS, AMOUNTS,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
)  # fmt: skip
@examples(200)
def test_a_usual_selector_reads_as_it_is_written(
    driver: str, model: str, amount: str, wanted: str, operator: str
) -> None:
    device = Device(driver, {"model": {"string": model}}, {"memory": amount})
    expression = (
        f'device.driver == "gpu" && device.attributes["gpu"].model in ["a100", "h100"]'
        f' && device.capacity["gpu"].memory.compareTo(quantity("{wanted}")) {operator} 0'
    )
    order = parse(amount) - parse(wanted)
    fits = {
        "==": order == 0,
        "!=": order != 0,
        "<": order < 0,
        "<=": order <= 0,
        ">": order > Fraction(0),
        ">=": order >= 0,
    }[operator]
    result = compile_selector(expression).result(device)
    assert result.match is (driver == "gpu" and model != "" and fits)


@pytest.mark.parametrize(
    ("expression", "terms"),
    [
        ("a == 1", ["a == 1"]),
        ("a == 1 && b(x && y) &&\n c[d && e]", ["a == 1", "b(x && y)", "c[d && e]"]),
        ("a && b || c", ["a && b || c"]),
        ("a && (b || c)", ["a", "(b || c)"]),
        ("a ? b && c : d", ["a ? b && c : d"]),
        ('a == "x && y" && b', ['a == "x && y"', "b"]),
    ],
)
def test_the_terms_of_a_conjunction_are_told_apart(expression: str, terms: list[str]) -> None:
    assert conjuncts(expression) == terms
