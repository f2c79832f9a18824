"""The base of the configuration models, and the decoder that reads plain data into them.

Models are strict, frozen, and have camelCase names in files. ``decode`` reads plain data (from YAML
or JSON) into a model. If a value does not fit its field, it records the error, uses the default
instead and continues, so that one run reports all errors.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from google.protobuf.message import Message
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    ValidationError,
    ValidationInfo,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from podsched.api import codec
from podsched.config.durations import format_duration, parse_duration
from podsched.config.errors import FieldError, invalid, unknown_field

#: Validation context of data from a file, where durations and bytes are strings.
_FROM_FILE = "from a file"
#: Max nesting of a document, and max number of its values.
_MAX_DEPTH = 64
_MAX_VALUES = 200_000
#: Max attempts to validate a document. After each, the invalid values are removed.
_MAX_ROUNDS = 8


class Model(BaseModel):
    """Base of all configuration models; code uses the fields' Python names."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
        allow_inf_nan=False,  # JSON cannot express them, so /configz could not show them.
    )

    def errors(self, path: str) -> Iterable[FieldError]:
        """Return the errors in the values, with field paths below ``path``; types are correct."""
        return ()


ModelT = TypeVar("ModelT", bound=Model)
T = TypeVar("T")


def _read_duration(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from None
    if info.context == _FROM_FILE:
        raise PydanticCustomError("duration", 'must be a duration such as "15s" or "1m30s"')
    return value


def _read_base64(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str) and info.context == _FROM_FILE:
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise PydanticCustomError("base64", "must be base64") from None
    return value


def _message_reader(kind: type[Message]) -> BeforeValidator:
    def read(value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        message, reader = kind(), codec.Reader()
        reader.read(message, value, "")
        found = reader.problems + [unknown_field(path) for path in reader.unknown]
        if found:
            context = {"found": found, "message": message}
            raise PydanticCustomError("message", "does not fit", context)
        return message

    return BeforeValidator(read)


class Dumped:
    """A protobuf message in a dumped model: plain data whose empty parts must be kept.

    In a message an empty object has a meaning: a node selector without terms matches no node.
    """

    __slots__ = ("data",)

    def __init__(self, message: Message) -> None:
        self.data = codec.write(message)


def message_type(kind: type[Message]) -> Any:
    """Return the annotation of a field with a protobuf message in Kubernetes' JSON form."""
    return Annotated[kind, _message_reader(kind), PlainSerializer(Dumped)]


Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
#: Seconds; a Go duration in files.
Duration = Annotated[float, BeforeValidator(_read_duration), PlainSerializer(format_duration)]
#: Bytes; base64 in files.
Base64 = Annotated[
    bytes,
    BeforeValidator(_read_base64),
    PlainSerializer(lambda value: base64.b64encode(value).decode()),
]
#: A list in files, a tuple here.
ListOf = Annotated[tuple[T, ...], Strict(False)]


def unless_empty(default: Any) -> AfterValidator:
    """Return a validator that replaces zero and empty values by a default, as Go does."""
    return AfterValidator(lambda value: value or default)


def decode(
    kind: type[ModelT], data: object, path: str, found: list[FieldError]
) -> tuple[ModelT, set[str]]:
    """Read ``data`` into a ``kind`` and append errors to ``found``.

    Returns the model, with defaults for invalid values, and the paths of the invalid values.
    """
    plain = _Copier(found).copy(data, path, 0)
    bad: set[str] = {error.path for error in found}
    if not isinstance(plain, dict):
        if plain is not None and path not in bad:
            found.append(invalid(path, plain, "must be an object"))
            bad.add(path)
        plain = {}
    for _ in range(_MAX_ROUNDS):
        try:
            model = kind.model_validate(plain, by_alias=True, by_name=False, context=_FROM_FILE)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                for problem in _translate(detail, path):
                    found.append(problem)
                    bad.add(problem.path)
                _remove(plain, detail)
        else:
            return model, bad
    return kind(), bad | {path}


def decode_checked(kind: type[ModelT], data: object, path: str, found: list[FieldError]) -> ModelT:
    """Read ``data`` into a ``kind`` as ``decode`` does; append the errors in its values, too."""
    model, bad = decode(kind, data, path, found)
    # Invalid values are reported and replaced by defaults, so do not report them twice.
    found += [error for error in model.errors(path) if not is_below(error.path, bad)]
    return model


def is_below(path: str, places: set[str]) -> bool:
    """Return whether ``path`` is one of ``places`` or below one."""
    return any(
        path == place or (path.startswith(place) and path[len(place)] in ".[") or not place
        for place in places
    )


def join(path: str, *steps: str | int) -> str:
    """Return a field path extended by ``steps``: "a", "b" and 0 make "a.b[0]"."""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


class _Copier:
    """Copies plain data without nulls, which mean "unset", up to a maximum size.

    The limit is needed because YAML's aliases can make a short text a huge or infinite value.
    """

    def __init__(self, found: list[FieldError]) -> None:
        """found: errors are appended to it."""
        self._found = found
        self._left = _MAX_VALUES

    def copy(self, value: object, path: str, depth: int) -> object:
        self._left -= 1
        if depth > _MAX_DEPTH or self._left < 0:
            if self._left >= 0 or not self._found:
                self._found.append(invalid(path, None, "nested too deeply or too large"))
            self._left = -1
            return None
        if isinstance(value, Mapping):
            return {
                str(key): self.copy(item, join(path, str(key)), depth + 1)
                for key, item in value.items()
                if item is not None
            }
        if isinstance(value, list | tuple):
            return [self.copy(item, join(path, at), depth + 1) for at, item in enumerate(value)]
        return value


_REASONS = {
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "bytes_type": "must be base64",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
_OBJECTS = ("model_type", "model_attributes_type", "dict_type", "is_instance_of")


def _translate(detail: ErrorDetails, path: str) -> list[FieldError]:
    here, kind = join(path, *detail["loc"]), detail["type"]
    if kind == "extra_forbidden":
        return [unknown_field(here)]
    if kind == "message":
        return [
            FieldError(_below(here, error.path), error.value, error.reason, error.type)
            for error in detail["ctx"]["found"]
        ]
    if kind == "base64":  # Probably a private key that is not encoded: do not show it.
        return [invalid(here, "***", detail["msg"])]
    if kind == "is_instance_of":
        return [invalid(here, detail["input"], "must be an object")]
    if kind in ("greater_than_equal", "less_than_equal"):
        return [invalid(here, detail["input"], "is out of range")]
    return [invalid(here, detail["input"], _REASONS.get(kind, detail["msg"]))]


def _below(path: str, relative: str) -> str:
    return join(path, relative) if relative and relative[0] != "[" else path + relative


def _remove(plain: dict[str, Any], detail: ErrorDetails) -> None:
    """Remove a value that did not fit.

    An item of a list is replaced by an empty one, so that the others keep their index. A message
    keeps the fields that did fit.
    """
    *above, last = detail["loc"]
    holder: Any = plain
    for step in above:
        holder = holder[step]
    if detail["type"] == "message":
        holder[last] = detail["ctx"]["message"]
    elif isinstance(holder, list):
        holder[int(last)] = {} if detail["type"] in _OBJECTS else ""
    else:
        holder.pop(last, None)
