"""CEL's tokens: text to tokens, and those of literals to values (cel-go v0.26 ``parser``)."""

from __future__ import annotations

import re

from podsched.api.cel.errors import CompileError
from podsched.api.cel.values import Uint

#: Kind, text and position.
Token = tuple[str, str, int]
_TOKEN = re.compile(
    r"""(?P<space>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<string>[bB]?(?:
        [rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"[^"\n\r]*"|'[^'\n\r]*')
        |\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''
        |"(?:\\[^\n\r]|[^\\"\n\r])*"|'(?:\\[^\n\r]|[^\\'\n\r])*'))
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|([\s\S]))"
)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Tokens:
    """The tokens of an expression, taken one by one."""

    def __init__(self, text: str) -> None:
        self._tokens = scan(text)
        self._at = 0

    @property
    def next(self) -> Token:
        """The next token, which stays."""
        return self._tokens[self._at]

    def peek(self) -> str:
        """Return the text of the next token."""
        return self._tokens[self._at][1]

    def take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def accept(self, sign: str) -> bool:
        """Take the next token if it is this sign; return whether it was."""
        # The text of a string never equals a sign, since it keeps its quotes.
        if self.peek() != sign:
            return False
        self._at += 1
        return True

    def expect(self, sign: str) -> int:
        """Take this sign; return its position. Raises CompileError for another token."""
        _, found, position = self.take()
        if found != sign:
            raise unexpected(found, position, f" expecting '{sign}'")
        return position


def unexpected(found: str, position: int, expecting: str = "") -> CompileError:
    """Return the error of a token that cannot be at its position."""
    return CompileError(f"Syntax error: mismatched input '{found}'{expecting}", position)


def scan(text: str) -> list[Token]:
    """Return the tokens, with "<EOF>" as the last. Raises CompileError."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            reason = f"Syntax error: token recognition error at: '{text[position]}'"
            raise CompileError(reason, position)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, match[0], position))
        position = match.end()
    return [*found, ("end", "<EOF>", len(text))]


def value_of(kind: str, text: str) -> str | bytes | int | float:
    """Return the value of a literal's token. Raises ValueError."""
    return _unquoted(text) if kind == "string" else _number(kind, text)


def _number(kind: str, text: str) -> int | float:
    if kind == "float":
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError("invalid double literal")
        return value
    digits = text.rstrip("uU")
    base = 16 if "0x" in digits else 10
    # Digits cost more than linear time to convert.
    number = int(digits.replace("0x", ""), base) if len(digits) < 100 else 1 << 99
    low, high = (0, 2**64) if kind == "uint" else (-(2**63), 2**63)
    if not low <= number < high:
        raise ValueError(f"invalid {kind} literal")
    return Uint(number) if kind == "uint" else number


def _unquoted(text: str) -> str | bytes:
    is_bytes = text[0] in "bB"
    body = text[1:] if is_bytes else text
    raw = body[0] in "rR"
    body = body[1:] if raw else body
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if raw:
        return body.encode("utf-8", "surrogatepass") if is_bytes else body
    try:
        return _unescaped_bytes(body) if is_bytes else _ESCAPE.sub(_unescaped, body)
    except ValueError as error:
        raise ValueError(f"Syntax error: token recognition error: {error}") from None


def _unescaped(match: re.Match[str]) -> str:
    letter, byte, short, long, octal, other = match.groups()
    if other is not None:
        raise ValueError(f"unable to unescape string: \\{other}")
    if letter is not None:
        return _ESCAPED.get(letter, letter)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescaped_bytes(body: str) -> bytes:
    found = bytearray()
    end = 0
    for match in _ESCAPE.finditer(body):
        found += body[end : match.start()].encode("utf-8", "surrogatepass")
        if match[3] or match[4]:
            raise ValueError("unable to unescape string")
        found += _unescaped(match).encode("latin-1")
        end = match.end()
    return bytes(found + body[end:].encode("utf-8", "surrogatepass"))
