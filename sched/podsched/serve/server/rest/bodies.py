"""Decodes request bodies to JSON and to messages, with Kubernetes' error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from podsched.api import codec
from podsched.api.json_text import load_json
from podsched.api.kinds import KINDS
from podsched.api.manifest import ManifestError, load_documents
from podsched.api.objects import AnyObject
from podsched.api.quantity import QuantityError, canonical
from podsched.api.quantity_fields import change_quantities
from podsched.serve.server.patching import is_deep
from podsched.serve.server.rest.failures import RestError, bad_request, failed_option
from podsched.serve.server.rest.media import ACCEPTED
from podsched.serve.server.rest.messages import DRY_RUN, JSON, Request
from podsched.serve.server.rest.protobuf_bodies import MEDIA as PROTOBUF
from podsched.serve.server.rest.protobuf_bodies import ProtobufError, UnsupportedKindError, decode
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.shapes import micro_time_problem

YAML: Final = "application/yaml"
#: YAML parser events in a body (maps and lists count twice); each takes about 20 us. JSON is
#: cheaper, so only the size of the body limits it.
_MAX_YAML_EVENTS: Final = 20_000
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
MAX_WARNINGS: Final = 50
#: Characters of a key shown in a path.
_MAX_SHOWN: Final = 200


def media_of(request: Request) -> str:
    """Return the media type of a request's body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class _Doubled(dict[str, Any]):
    """A JSON object with duplicate keys."""

    doubled: tuple[str, ...] = ()


def _marked(pairs: list[tuple[str, Any]], found: dict[str, Any]) -> _Doubled:
    marked = _Doubled(found)
    seen: set[str] = set()
    marked.doubled = tuple(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def parsed(request: Request, expected: str) -> tuple[Any, list[str]]:
    """Return the body of a request as JSON, and the paths of its duplicate fields.

    expected: the kind, for messages. Raises RestError 400 and 415.
    """
    media, raw = media_of(request), request.body
    if media == PROTOBUF:
        try:
            return decode(raw), []
        except UnsupportedKindError as error:
            raise RestError(415, "UnsupportedMediaType", str(error)) from None
        except ProtobufError as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None
    if media not in ("", JSON, YAML):
        message = (
            "the body of the request was in an unknown format - accepted media types include: "
            f"{ACCEPTED}"
        )
        raise RestError(415, "UnsupportedMediaType", message)
    try:
        return (_yaml(raw), []) if media == YAML else _json(raw)
    except ValueError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {expected}): {error}"
        ) from None


def _json(raw: bytes) -> tuple[Any, list[str]]:
    any_doubled = False

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal any_doubled
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        any_doubled = True
        return _marked(pairs, found)

    content = load_json(raw, made)
    return content, list(islice(_doubled(content, ""), MAX_WARNINGS)) if any_doubled else []


def _yaml(raw: bytes) -> Any:
    # kubectl and client-go label applied configurations as YAML but write JSON, which the JSON
    # parser reads forty times faster.
    if raw.lstrip().startswith(b"{"):
        # It may still be YAML in flow style; if not, the YAML parser below gives the better error.
        with suppress(ValueError):
            content, doubled = _json(raw)
            if not doubled and not is_deep(content):
                return content
    try:
        documents = load_documents(raw, most_events=_MAX_YAML_EVENTS, as_written=True)
    except ManifestError as error:
        raise ValueError(str(error)) from None
    if len(documents) != 1:
        raise ValueError(f"{len(documents)} documents instead of one")
    return documents[0]


def _doubled(content: Any, path: str) -> Iterator[str]:
    if isinstance(content, dict):
        if isinstance(content, _Doubled):
            yield from (_join(path, key) for key in content.doubled)
        for key, value in content.items():
            if isinstance(value, (dict, list)):
                yield from _doubled(value, _join(path, key[:_MAX_SHOWN]))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            if isinstance(value, (dict, list)):
                yield from _doubled(value, f"{path}[{index}]")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def check_kind(content: Any, name: str, api_versions: Sequence[str]) -> None:
    """Raise RestError 400 for a body of another kind or apiVersion."""
    if not isinstance(content, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {name})")
    for field in ("apiVersion", "kind"):
        if not isinstance(content.get(field) or "", str):
            raise bad_request(f"couldn't get version/kind; {field} is not a string")
    kind = content.get("kind") or name
    version = content.get("apiVersion") or api_versions[0]
    if kind == name and version in api_versions:
        return
    what = f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {name}'
    known = KINDS.get(kind)
    if kind != name and known is not None and known.api_version == version:
        of = version.rpartition("/")[2]
        raise bad_request(f"{what}: converting ({of}.{kind}) to (core.{name}): unknown conversion")
    why = f'no kind "{kind}" is registered for version "{version}" in scheme "podsched"'
    raise bad_request(f"{what}: {why}")


def member(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that must be an object, empty if absent. Raises RestError 400."""
    found = content.get(name) or {}
    if not isinstance(found, dict):
        raise bad_request(f"{name}: an object was expected")
    return found


class Decoded(NamedTuple):
    """An object from a body. warnings: about unknown and duplicate fields."""

    message: AnyObject
    warnings: list[str]


def validation_of(request: Request, options: str) -> str:
    """Return the fieldValidation of a request. Raises RestError 422."""
    level = request.query.get("fieldValidation", "")
    if level not in _VALIDATIONS:
        text = f'"{level[:100]}": supported values: "", "Ignore", "Strict", "Warn"'
        raise failed_option(options, "fieldValidation", "Unsupported value", text)
    return level or "Warn"


def read_object(
    resource: Resource, content: Mapping[str, Any], doubled: Sequence[str], level: str
) -> Decoded:
    """Decode the object that JSON describes. Raises RestError 400.

    doubled: paths of duplicate fields. level: the fieldValidation; "Strict" makes unknown and
    duplicate fields an error, "Warn" a warning.
    """
    name = resource.kind.name
    what = f'{name} in version "{resource.version}" cannot be handled as a {name}'
    message = resource.kind.new()
    warnings = [f'duplicate field "{path}"' for path in doubled]
    reader = codec.Reader()
    stripped = {key: value for key, value in content.items() if key not in ("apiVersion", "kind")}
    hidden = resource.hide(stripped)
    if problem := micro_time_problem(resource.kind, hidden):
        raise bad_request(f"{what}: {problem}")
    reader.read(message, hidden, "")
    if reader.problems:
        first = reader.problems[0]
        raise bad_request(f"{what}: json: {first.path}: {first.reason}")
    try:
        change_quantities(message, canonical)
    except QuantityError as error:
        raise bad_request(f"{what}: {error}") from None
    warnings += [f'unknown field "{path}"' for path in reader.unknown]
    if warnings and level == "Strict":
        raise bad_request(f"{what}: strict decoding error: {', '.join(warnings)}")
    return Decoded(message, warnings[:MAX_WARNINGS] if level == "Warn" else [])


def manager_of(request: Request, options: str) -> str:
    """Return a request's fieldManager, by default the client's name. Raises RestError."""
    name = request.query.get("fieldManager", "")
    if len(name) > 128:
        raise failed_option(options, "fieldManager", "Too long", "may not be more than 128 bytes")
    return name or request.headers.get("user-agent", "unknown").partition("/")[0][:128]


def dry_run(values: Sequence[str], options: str) -> bool:
    """Return whether ``dryRun`` forbids storing anything. Raises RestError 422."""
    for value in values:
        if value != "All":
            shown = ",".join(f'"{v}"' for v in values)
            text = f'[{shown}]: supported values: "All"'
            raise failed_option(options, "dryRun", "Unsupported value", text)
    return bool(values)


def asks_dry_run(request: Request, options: str) -> bool:
    """Return whether the query asks for a dry run. Raises RestError 422."""
    return dry_run(request.values.get(DRY_RUN, ()), options)
