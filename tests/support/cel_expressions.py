"""Makes CEL expressions up, by the types of the functions that there are."""

from __future__ import annotations

from random import Random

from podsched.api.cel import types
from podsched.api.cel.declarations import FUNCTIONS, Overload
from podsched.api.cel.types import BOOL, DYN, Type, list_of, map_of, optional_of
from podsched.api.device_selectors import Device

DOMAIN = "gpu.example.com"
DEVICE = Device(
    DOMAIN,
    {
        "model": {"string": "a100"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "fw": {"version": "2.10.3-rc.1"},
        "other.example.org/rack": {"string": "größe"},
    },
    {"memory": "80Gi", "lanes": "500m", "huge": "9223372036854775807"},
)

_TEXTS = (
    '""',
    '"a100"',
    '"80Gi"',
    '"1.2.3"',
    '"10.1.2.3"',
    '"[a-z]+"',
    '"größe"',
    '"%s %d"',
    '"1h"',
)
_LITERALS: dict[Type, tuple[str, ...]] = {
    types.BOOL: ("true", "false", f'device.attributes["{DOMAIN}"].ecc == true'),
    types.INT: ("0", "1", "-1", "3", "9223372036854775807", "-9223372036854775808"),
    types.UINT: ("0u", "1u", "18446744073709551615u"),
    types.DOUBLE: ("0.0", "1.5", "-2.0", "1e300", "0.0 / 0.0"),
    types.STRING: (*_TEXTS, "device.driver"),
    types.BYTES: ('b""', 'b"a\\xff"'),
    types.NULL: ("null",),
    types.DURATION: ('duration("1h")', 'duration("-3s")'),
    types.TIMESTAMP: ('timestamp("2024-02-29T23:59:59.5Z")', "timestamp(0)"),
    types.QUANTITY: ('quantity("40Gi")', f'device.capacity["{DOMAIN}"].memory'),
    types.SEMVER: ('semver("1.0.0")', 'semver("v1.2", true)'),
    types.IP: ('ip("10.1.2.3")', 'ip("::1")'),
    types.CIDR: ('cidr("10.0.0.0/8")', 'cidr("fe80::/10")'),
    types.URL: ('url("https://a.example:8443/p?a=b")', 'url("/p")'),
    types.FORMAT: ("format.uuid()", "format.dns1123Label()"),
    DYN: (
        'dyn("a")',
        "dyn([1])",
        *(f'device.attributes["{DOMAIN}"].{name}' for name in ("model", "index", "fw", "none")),
    ),
}
_CHOICES = tuple(type_ for type_ in _LITERALS if type_ != types.NULL)
_MACROS = ("all", "exists", "exists_one")
_SIGNS = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&&", "||")
_OPERATORS = {"@in": "in"} | {f"_{sign}_": sign for sign in _SIGNS}


class Expressions:
    """Random expressions; each is of the right types as long as nothing is ``dyn``."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0

    def selector(self) -> str:
        """An expression that is a bool."""
        return self._of(BOOL, self._random.randint(1, 5), {})

    def _of(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str:
        wanted = self._concrete(wanted)
        known = [name for name, type_ in scope.items() if type_ == wanted]
        if known and self._random.random() < 0.4:
            return self._random.choice(known)
        if depth and self._random.random() < 0.1:
            return f"dyn({self._of(self._any(), depth - 1, scope)})"
        makers = [self._call, self._call, self._call, self._ternary]
        if wanted == BOOL:
            makers += [self._macro, self._has]
        made = self._random.choice(makers)(wanted, depth - 1, scope) if depth > 0 else None
        return made or self._literal(wanted, depth, scope)

    def _any(self) -> Type:
        return self._random.choice((*_CHOICES, list_of(types.INT), list_of(types.STRING)))

    def _concrete(self, type_: Type) -> Type:
        if type_.is_variable:
            return self._random.choice(_CHOICES)
        return Type(type_.name, tuple(map(self._concrete, type_.parameters)))

    def _literal(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str:
        if wanted in _LITERALS:
            return self._random.choice(_LITERALS[wanted])
        inner = [self._of(parameter, min(depth, 1), scope) for parameter in wanted.parameters]
        if wanted.name == "list":
            return self._random.choice(("[]", f"[{inner[0]}]", f"[{inner[0]}, {inner[0]}]"))
        if wanted.name == "map":
            return self._random.choice(("{}", f"{{{inner[0]}: {inner[1]}}}"))
        if wanted.name == "optional_type":
            return self._random.choice(("optional.none()", f"optional.of({inner[0]})"))
        return f"type({self._of(self._any(), 0, scope)})"

    def _call(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str | None:
        function, overload = self._random.choice(_OVERLOADS)
        for _ in range(200):
            bound = _unified(overload.result, wanted)
            if bound is not None:
                break
            function, overload = self._random.choice(_OVERLOADS)
        else:
            return None
        substituted = [self._concrete(_applied(p, bound)) for p in self._shared(overload, bound)]
        arguments = [self._of(parameter, depth, scope) for parameter in substituted]
        if function in _OPERATORS:
            return f"({f' {_OPERATORS[function]} '.join(arguments)})"
        if function in ("_[_]", "_[?_]"):
            return f"{arguments[0]}{'[' if function == '_[_]' else '[?'}{arguments[1]}]"
        if function in ("!_", "-_"):
            return f"{function[0]}({arguments[0]})"
        if overload.is_method:
            return f"({arguments[0]}).{function}({', '.join(arguments[1:])})"
        return f"{function}({', '.join(arguments)})"

    def _shared(self, overload: Overload, bound: dict[Type, Type]) -> tuple[Type, ...]:
        """The parameters, where one variable has one type."""
        for parameter in overload.parameters:
            for variable in _variables(parameter):
                bound.setdefault(variable, self._random.choice(_CHOICES))
        return overload.parameters

    def _ternary(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str:
        condition = self._of(BOOL, depth, scope)
        return (
            f"({condition} ? {self._of(wanted, depth, scope)} : {self._of(wanted, depth, scope)})"
        )

    def _has(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str:
        name = self._random.choice(("model", "none"))
        return self._random.choice(
            (
                f'has(device.attributes["{DOMAIN}"].{name})',
                f'"{name}" in device.attributes["{DOMAIN}"]',
            )
        )

    def _macro(self, wanted: Type, depth: int, scope: dict[str, Type]) -> str:
        self._names += 1
        one, two = f"x{self._names}", f"y{self._names}"
        element = self._random.choice(_CHOICES)
        values = self._of(list_of(element), depth, scope)
        inner = scope | {one: element}
        chosen = self._random.random()
        if chosen < 0.3:
            body = self._of(BOOL, depth, inner)
            return f"{values}.{self._random.choice(_MACROS)}({one}, {body})"
        if chosen < 0.5:
            kept = self._of(BOOL, depth, inner)
            return f"{values}.map({one}, {kept}, {self._of(types.INT, depth, inner)}).size() > 0"
        if chosen < 0.6:
            return f"{values}.filter({one}, {self._of(BOOL, depth, inner)}).size() > 0"
        if chosen < 0.7:
            body = self._of(BOOL, depth, scope | {one: types.INT, two: element})
            return f"{values}.{self._random.choice(_MACROS)}({one}, {two}, {body})"
        if chosen < 0.8:
            key = self._of(types.INT, depth, inner)
            return f"{values}.sortBy({one}, {key}).size() > 0"
        if chosen < 0.9:
            option = self._of(optional_of(element), depth, scope)
            return f"{option}.optMap({one}, {self._of(BOOL, depth, inner)}).orValue(false)"
        container = self._of(map_of(types.STRING, types.INT), depth, scope)
        body = self._of(types.INT, depth, scope | {one: types.STRING, two: types.INT})
        return f"cel.bind({one}, {container}.transformMap({one}, {two}, {body}), {one}.size() > 0)"


def _variables(type_: Type) -> list[Type]:
    if type_.is_variable:
        return [type_]
    return [variable for parameter in type_.parameters for variable in _variables(parameter)]


def _unified(pattern: Type, wanted: Type) -> dict[Type, Type] | None:
    if pattern.is_variable:
        return {pattern: wanted}
    if pattern.name != wanted.name or len(pattern.parameters) != len(wanted.parameters):
        return None
    found: dict[Type, Type] = {}
    for one, other in zip(pattern.parameters, wanted.parameters, strict=True):
        bound = _unified(one, other)
        if bound is None:
            return None
        found |= bound
    return found


def _applied(type_: Type, bound: dict[Type, Type]) -> Type:
    if type_.is_variable:
        return bound.get(type_, type_)
    return Type(type_.name, tuple(_applied(p, bound) for p in type_.parameters))


_OVERLOADS = [
    (name, overload)
    for name, function in FUNCTIONS.items()
    if not name.startswith(("@s", "@n", "cel.@", "_?")) and name != "includes"
    for overload in function.overloads
]
