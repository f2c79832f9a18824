"""Applies patches of the gRPC API: JSON merge patches (RFC 7396) and strategic merge patches.

Pure. Patches are applied to the message field by field, so that errors have the fields' paths. A
strategic patch is first converted to an equivalent merge patch for the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsched.api.json_text import load_json
from podsched.api.manifest import ManifestError, apply_merge_patch, merge_patch, to_manifest
from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server import errors
from podsched.serve.server.errors import Violation
from podsched.serve.server.strategic import PatchError, strategic_merge
from podsched.v1.api_pb2 import STRATEGIC_MERGE_PATCH, PatchRequest

#: Max nesting of a patch. Storable objects have fewer levels: about 12, and those of a field
#: without a schema.
MAX_PATCH_DEPTH = 100


def parse_patch(request: PatchRequest) -> dict[str, Any]:
    """Parse the patch in a request. Raises ApiError."""
    try:
        patch = load_json(request.merge_patch)
    except ValueError as error:
        raise errors.bad_request(f"the patch is not JSON: {error}", "mergePatch") from None
    if not isinstance(patch, dict):
        raise errors.bad_request("the patch must be a JSON object", "mergePatch")
    if is_deep(patch):
        text = f"the patch is nested more than {MAX_PATCH_DEPTH} levels deep"
        raise errors.bad_request(text, "mergePatch")
    return patch


def is_deep(patch: Any) -> bool:
    """Return whether a patch is nested beyond MAX_PATCH_DEPTH: merging recurses at each level."""
    level: list[Any] = [patch]
    for _ in range(MAX_PATCH_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def patched(message: AnyObject, patch: Mapping[str, Any], patch_type: int) -> AnyObject:
    """Return a patched copy of an object. Raises ApiError with all violations in the patch."""
    try:
        if patch_type == STRATEGIC_MERGE_PATCH:
            current = to_manifest(message)
            patch = merge_patch(current, strategic_merge(current, patch, current["kind"]))
        return apply_merge_patch(message, patch).message
    except PatchError as error:
        raise _invalid(str(error), [Violation("", str(error), "Invalid value")]) from None
    except ManifestError as error:
        violations = [
            Violation(problem.path, f"{problem.reason}", "Invalid value")
            for problem in error.problems
        ]
        raise _invalid(str(error), violations) from None


def _invalid(text: str, violations: list[Violation]) -> errors.ApiError:
    return errors.ApiError(
        StatusCode.INVALID_ARGUMENT, StatusReason.INVALID, text, violations=violations
    )
