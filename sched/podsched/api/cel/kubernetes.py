"""Kubernetes' own functions of CEL (v1.36, ``apiserver/pkg/cel/library``)."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes

from podsched.api import quantity as quantities
from podsched.api.cel.declarations import declare, declare_each
from podsched.api.cel.values import Budget, Cidr, Failure, Ip, Quantity, Semver, Url

_NANO = 10**9
_NUMBER = re.compile(r"[+-]?([0-9]*)\.?([0-9]*)([A-Za-z]?.*)", re.ASCII)
_NO_DIGITS = re.compile(r"^([+-]?)(\.(?![0-9])|(?![0-9.+-]))")


def parse_quantity(text: str) -> Quantity:
    """Return the quantity, kept as Go keeps it. Raises QuantityError.

    ``resource.ParseQuantity`` keeps short ones as an int64 and a power of ten, others as a decimal.
    """
    # Nothing is finer than a nano: what is, was rounded.
    nanos = int(quantities.parse(text) * _NANO)
    match = _NUMBER.fullmatch(text)
    assert match is not None, "parsed before"
    whole, decimals, suffix = match.groups()
    whole = whole.lstrip("0") or "0"
    if suffix in quantities.BINARY:
        # Go's cap on what it can hold.
        nanos = min(nanos, quantities.MAX_INT64 * _NANO)
        # Go's estimate of the number of digits: 3/10 of one for each power of two.
        short = not decimals and len(whole) + int(quantities.BINARY[suffix] * 0.3) + 1 <= 15
        return Quantity(nanos, 0 if short else None)
    exponent = quantities.DECIMAL[suffix] if suffix in quantities.DECIMAL else int(suffix[1:])
    scale = exponent - len(decimals)
    # Go tries an int64 only for as many digits as surely fit (``maxInt64Factors``).
    short = len(whole) + len(decimals) <= 18 and scale >= -9
    return Quantity(nanos, scale if short else None)


@declare("quantity(string) -> Quantity")
def _quantity(text: str) -> Quantity | Failure:
    try:
        # Go takes a quantity without digits for zero.
        return parse_quantity(_NO_DIGITS.sub(r"\g<1>0", text) if text else text)
    except quantities.QuantityError as exc:
        return Failure(str(exc))


@declare(".asApproximateFloat(Quantity) -> double")
def _as_float(value: Quantity) -> float:
    try:
        if value.scale is None:
            return value.nanos * 1e-9
        # As Go computes it.
        return float(_unscaled(value.nanos, value.scale)) * 10.0**value.scale
    except OverflowError:
        try:
            return value.nanos / _NANO
        except OverflowError:
            return math.inf if value.nanos > 0 else -math.inf


def _unscaled(nanos: int, scale: int) -> int:
    """Return the number that Go keeps, with the scale as its power of ten."""
    power = scale + 9
    return int(nanos // 10**power if power >= 0 else nanos * 10**-power)


@declare(".asInteger(Quantity) -> int")
def _integer(value: Quantity) -> int | Failure:
    number = value.nanos // _NANO
    if value.scale is None or value.scale < 0 or quantities.as_int64(number) != number:
        return Failure("cannot convert value to integer")
    return number


declare_each(
    {
        "isQuantity(string) -> bool": lambda text: isinstance(_quantity(text), Quantity),
        "sign(Quantity) -> int": lambda value: _sign(value.nanos, 0),
        ".isGreaterThan(Quantity, Quantity) -> bool": lambda a, b: a.nanos > b.nanos,
        ".isLessThan(Quantity, Quantity) -> bool": lambda a, b: a.nanos < b.nanos,
        ".compareTo(Quantity, Quantity) -> int": lambda a, b: _sign(a.nanos, b.nanos),
        ".isInteger(Quantity) -> bool": lambda value: isinstance(_integer(value), int),
        ".add(Quantity, Quantity) -> Quantity": lambda a, b: _sum(a, b.nanos, b.scale),
        ".add(Quantity, int) -> Quantity": lambda a, b: _sum(a, b * _NANO, 0),
        ".sub(Quantity, Quantity) -> Quantity": lambda a, b: _sum(a, -b.nanos, b.scale),
        ".sub(Quantity, int) -> Quantity": lambda a, b: _sum(a, -b * _NANO, 0),
    }
)


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _sum(one: Quantity, nanos: int, other_scale: int | None) -> Quantity:
    """Return the sum, as an int64 of the smaller scale while it fits in one."""
    total = one.nanos + nanos
    if one.scale is None or other_scale is None:
        return Quantity(total, None, computed=True)
    if not nanos:
        scale = one.scale
    elif not one.nanos:
        scale = other_scale
    else:
        scale = min(one.scale, other_scale)
    fits = abs(_unscaled(total, scale)) <= quantities.MAX_INT64
    return Quantity(total, scale if fits else None, computed=True)


_SEMVER = re.compile(
    r"(0|[1-9][0-9]{0,19})\.(0|[1-9][0-9]{0,19})\.(0|[1-9][0-9]{0,19})"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?",
    re.ASCII,
)
#: Longest version, since comparing two costs nothing by their lengths.
_LONGEST_VERSION = 1000


def parse_semver(text: str) -> Semver | None:
    """Return the semantic version as github.com/blang/semver reads it; None if it is none."""
    match = _SEMVER.fullmatch(text) if len(text) <= _LONGEST_VERSION else None
    if match is None:
        return None
    numbers = [int(number) for number in match.groups()[:3]]
    before = match[4].split(".") if match[4] is not None else []
    build = match[5].split(".") if match[5] is not None else []
    if max(numbers) >= 2**64 or not all(build):
        return None
    parts: list[tuple[int, int, str]] = []
    for part in before:
        if not part or (part.isdecimal() and len(part) > 1 and part[0] == "0"):
            return None
        if part.isdecimal() and (len(part) > 20 or int(part) >= 2**64):
            return None
        parts.append((0, int(part), "") if part.isdecimal() else (1, 0, part))
    # A release comes after its previews; of two that begin alike, the shorter comes first.
    return Semver(numbers[0], numbers[1], numbers[2], (*numbers, not parts, tuple(parts)))


def _normalized(text: str) -> Semver | None:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            rest = part.lstrip("0")
            parts[index] = rest if rest and rest[0] in "0123456789" else "0" + rest
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            return None
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


@declare("semver(string) -> Semver", "semver(string, bool) -> Semver")
def _semver(text: str, normalize: bool = False) -> Semver | Failure:
    found = _normalized(text) if normalize else parse_semver(text)
    return found or Failure(f"Invalid semantic version {text!r}")


@declare("isSemver(string) -> bool", "isSemver(string, bool) -> bool")
def _is_semver(text: str, normalize: bool = False) -> bool:
    return isinstance(_semver(text, normalize), Semver)


declare_each(
    {
        ".isGreaterThan(Semver, Semver) -> bool": lambda a, b: a.key > b.key,
        ".isLessThan(Semver, Semver) -> bool": lambda a, b: a.key < b.key,
        ".compareTo(Semver, Semver) -> int": lambda a, b: _sign(a.key, b.key),
        ".major(Semver) -> int": lambda value: quantities.as_int64(value.major),
        ".minor(Semver) -> int": lambda value: quantities.as_int64(value.minor),
        ".patch(Semver) -> int": lambda value: quantities.as_int64(value.patch),
    }
)


@declare("ip(string) -> IP")
def _ip(text: str) -> Ip | Failure:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return Failure(f'IP Address "{text}" parse error during conversion from string')
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return Failure(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            return Failure(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(address)


@declare(".isLinkLocalMulticast(IP) -> bool")
def _is_link_local_multicast(value: Ip) -> bool:
    packed = value.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


@declare(".isGlobalUnicast(IP) -> bool")
def _is_global_unicast(value: Ip) -> bool:
    address = value.address
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address.packed == b"\xff\xff\xff\xff"
    )


declare_each(
    {
        "isIP(string) -> bool": lambda text: isinstance(_ip(text), Ip),
        "ip.isCanonical(string) -> bool": lambda text: (
            str(value.address) == text if isinstance(value := _ip(text), Ip) else value
        ),
        ".family(IP) -> int": lambda value: value.address.version,
        ".isUnspecified(IP) -> bool": lambda value: value.address.is_unspecified,
        ".isLoopback(IP) -> bool": lambda value: value.address.is_loopback,
        ".isLinkLocalUnicast(IP) -> bool": lambda value: value.address.is_link_local,
    }
)


@declare("cidr(string) -> CIDR")
def _cidr(text: str) -> Cidr | Failure:
    address, slash, bits = text.partition("/")
    failure = Failure("network address parse error during conversion from string")
    if not slash or not re.fullmatch("0|[1-9][0-9]{0,2}", bits):
        return failure
    if not isinstance(value := _ip(address), Ip):
        return value
    try:
        return Cidr(ipaddress.ip_interface((value.address, int(bits))))
    except ValueError:
        return failure


@declare(".containsIP(CIDR, IP) -> bool", ".containsIP(CIDR, string) -> bool")
def _contains_ip(value: Cidr, other: Ip | str) -> bool | Failure:
    found = _ip(other) if isinstance(other, str) else other
    return found.address in value.interface.network if isinstance(found, Ip) else found


@declare(".containsCIDR(CIDR, CIDR) -> bool", ".containsCIDR(CIDR, string) -> bool")
def _contains_cidr(value: Cidr, other: Cidr | str) -> bool | Failure:
    found = _cidr(other) if isinstance(other, str) else other
    if isinstance(found, Failure):
        return found
    outer, inner = value.interface.network, found.interface.network
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


declare_each(
    {
        "isCIDR(string) -> bool": lambda text: isinstance(_cidr(text), Cidr),
        ".ip(CIDR) -> IP": lambda value: Ip(value.interface.ip),
        ".prefixLength(CIDR) -> int": lambda value: value.interface.network.prefixlen,
        ".masked(CIDR) -> CIDR": lambda value: Cidr(
            ipaddress.ip_interface(value.interface.network.with_prefixlen)
        ),
    }
)


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USER = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
_HOST = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~%-]+)?)\]"
    r"|((?:[^\x00-\x20\x7f#/:?@\[\\\]^`{|}%]|%25|%[89a-fA-F][0-9a-fA-F])*))(?::([0-9]*))?"
)
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@/\[\]-]*")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")


def is_url(text: str) -> bool:
    """Return whether Go's ``url.ParseRequestURI`` accepts a URL or a path."""
    return _parsed(text, request=True) is not None


def _parsed(text: str, *, request: bool) -> Url | None:
    """Return the parts of a URL without a fragment; None if it is none.

    ``request``: what has no scheme is a path, even if it begins with two slashes.
    """
    if text == "*":
        return Url(text, "", text, "")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest, mark, query = text[match.end() if match else 0 :].partition("?")
    if re.search(r"[\x00-\x1f\x7f]", text) or not (scheme or rest.startswith("/")):
        return None
    begin, end = f"{scheme}:" if scheme else "", mark + query
    if not rest.startswith("/"):
        return Url(begin + rest + end, scheme, "", query)
    host = name = port = ""
    if rest.startswith("//") and (scheme or not (request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, _, host = authority.rpartition("@")
        parts = _HOST.fullmatch(host)
        if parts is None or _USER.fullmatch(user) is None:
            return None
        name, port = unquote(parts[1] or parts[2]), parts[3] or ""
        begin, host, rest = f"{begin}//{authority}", unquote(host), slash + path
    if _BAD_ESCAPE.search(rest):
        return None
    if _ESCAPED_PATH.fullmatch(rest) is None:
        encoded = rest.encode("utf-8", "surrogatepass")
        rest = quote(unquote_to_bytes(encoded), safe="$&+,/:;=@")
    return Url(begin + rest + end, scheme, rest, query, host, name, port)


@declare("url(string) -> URL")
def _url(text: str) -> Url | Failure:
    whole, _, fragment = text.partition("#")
    # As in Kubernetes: accepted as of a request, which has no fragment, and then read once more.
    found = _parsed(whole, request=False) if is_url(text) else None
    if found is None or _BAD_ESCAPE.search(fragment):
        return Failure(
            "URL parse error during conversion from string: "
            f'parse "{text}": invalid URI for request'
        )
    return replace(found, text=f"{found.text}#{fragment}") if fragment else found


declare_each(
    {
        "isURL(string) -> bool": is_url,
        ".getScheme(URL) -> string": lambda value: value.scheme,
        ".getHost(URL) -> string": lambda value: value.host,
        ".getHostname(URL) -> string": lambda value: value.name,
        ".getPort(URL) -> string": lambda value: value.port,
        ".getEscapedPath(URL) -> string": lambda value: value.path,
    }
)


@declare(".getQuery(URL) -> map(string, list(string))", budget=True)
def _query_of(value: Url, budget: Budget) -> dict[str, list[str]]:
    budget.spend(len(value.query) // 4)
    found: dict[str, list[str]] = {}
    for part in value.query.split("&"):
        key, _, text = part.partition("=")
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        found.setdefault(unquote_plus(key), []).append(unquote_plus(text))
    return found
