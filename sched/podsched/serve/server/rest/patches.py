"""Parses the body of a PATCH, of any type, into a function that changes an object in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import jsonpatch
import jsonpointer

from podsched.api.codec import merged
from podsched.api.json_text import MAX_VALUES, load_json
from podsched.api.kinds import KINDS
from podsched.lib.bounded_text import separators
from podsched.serve.server.patching import MAX_PATCH_DEPTH, is_deep
from podsched.serve.server.rest.bodies import media_of
from podsched.serve.server.rest.failures import RestError, bad_request, invalid_patch
from podsched.serve.server.rest.messages import MAX_BODY_BYTES, Request
from podsched.serve.server.rest.shapes import always_shown
from podsched.serve.server.strategic import PatchError, strategic_merge

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PATCH_TYPES: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
#: Max operations of a JSON patch, as in kube-apiserver.
_MAX_OPERATIONS: Final = 10_000

#: Exceptions of the libraries for patches that cannot be applied.
_REFUSED: Final = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

Content = dict[str, Any]


def patch_type(request: Request) -> str:
    """Return the type of a request's patch. Raises RestError 415."""
    media = media_of(request)
    if media not in PATCH_TYPES:
        raise RestError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return media


def effort_of(media: str, raw: bytes) -> int:
    """Return the bytes of a body that takes as long as to apply this patch.

    An operation of a JSON patch takes longer than its size says. Copies of copies can become as
    large as a body may be; the word may be written with an escape.
    """
    if media != JSON_PATCH:
        return len(raw)
    return MAX_BODY_BYTES if b"copy" in raw or b"\\u" in raw else len(raw) * 10


def patched_content(media: str, raw: bytes, kind: str) -> Callable[[Content], Content]:
    """Return the function that applies a patch to an object of a kind. Both raise RestError."""
    try:
        patch = load_json(raw)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    _check_depth(patch)
    if media == JSON_PATCH:
        return _operations(patch, kind)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: an object was expected")
    if media == MERGE:
        return lambda content: merged(content, patch)
    return lambda content: _strategic(content, patch, kind)


def _check_depth(content: Any) -> None:
    if isinstance(content, (dict, list)) and is_deep(content):
        raise bad_request(f"error decoding patch: nested more than {MAX_PATCH_DEPTH} levels deep")


def _strategic(content: Content, patch: Mapping[str, Any], kind: str) -> Content:
    try:
        return strategic_merge(content, patch, kind)
    except PatchError as error:
        raise invalid_patch(error) from None


def _copied(content: Any, operation: Any) -> bytes:
    """Return the value that a "copy" operation copies, as JSON; b"" for other operations.

    Its size is limited, because repeated copies of copies could grow to gigabytes.
    """
    if not isinstance(operation, dict) or operation.get("op") != "copy":
        return b""
    return json.dumps(jsonpointer.resolve_pointer(content, operation["from"])).encode()


def _as_applied(content: Any, operation: Any) -> Any:
    """Return an operation as Kubernetes' library applies it; None: it changes nothing.

    It adds a member that "replace" does not find, and "test" takes an absent member for null.
    """
    path, op = operation["path"], operation["op"]
    if op not in ("replace", "test") or not path:
        return operation
    parent, name = jsonpointer.JsonPointer(path).to_last(content)
    if not isinstance(parent, dict) or name in parent:
        return operation
    if op == "replace":
        return {**operation, "op": "add"}
    return None if operation.get("value") is None else operation


def _operations(patch: Any, kind: str) -> Callable[[Content], Content]:
    """Return the function that applies a JSON patch (RFC 6902). Both raise RestError."""
    shown = always_shown(KINDS[kind]) if kind in KINDS else {}
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: json: an array was expected")
    if len(patch) > _MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}"
        raise RestError(413, "RequestEntityTooLarge", f"{text}, got {len(patch)}")

    def change(content: Content) -> Content:
        # An operation may add to an empty spec, which is not stored.
        result: Any = {**{name: {} for name in shown}, **content}
        size = values = 0
        try:
            for operation in patch:
                copied = _copied(result, operation)
                size += len(copied)
                values += separators(copied)
                # As much as the body of a request may have.
                if size > MAX_BODY_BYTES or values > MAX_VALUES:
                    raise RestError(413, "RequestEntityTooLarge", "the patch copies too much")
                if (applied := _as_applied(result, operation)) is not None:
                    result = jsonpatch.apply_patch(result, [applied], in_place=True)
        except _REFUSED:
            text = "the server rejected our request due to an error in our request"
            raise RestError(422, "Invalid", text, {}) from None
        if not isinstance(result, dict):
            raise bad_request("error decoding patch: the result is not an object")
        # Each move may have made it deeper.
        _check_depth(result)
        return result

    return change
