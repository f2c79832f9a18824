"""The claims of a pod and of its containers; the texts are those of a real API server v1.36.2."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.kinds import kind_of
from podsched.api.manifest import from_manifest
from podsched.api.validation import validate

OWN = {"name": "a", "resourceClaimName": "c"}
OTHER = {"name": "z", "resourceClaimName": "d"}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
AT_MOST_ONE = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
ONE = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
NAMES = "must be one of the names in pod.spec.resourceClaims"


def found(kind: str, spec: dict[str, Any]) -> list[str]:
    version = "v1" if kind == "Pod" else "apps/v1"
    metadata = {"name": "x", "namespace": "default", "labels": {"a": "b"}}
    message = from_manifest(
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    ).message
    return [str(error) for error in validate(kind_of(message), message)]


def spec_of(claims: list[Any], used: list[Any], **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"claims": used}}
    return {"containers": [container], "resourceClaims": claims, **more}


def test_containers_use_claims_and_parts_of_claims() -> None:
    parts = [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}, {"name": "z"}]
    assert found("Pod", spec_of([OWN, OTHER], parts)) == []


def test_a_claim_may_be_named_twice_and_come_from_a_template() -> None:
    again = {"name": "b", "resourceClaimName": "c"}
    template = {"name": "t", "resourceClaimTemplateName": "t"}
    assert found("Pod", spec_of([OWN, again, template], [])) == []


@pytest.mark.parametrize(
    ("claims", "errors"),
    [
        (
            [{**OWN, "resourceClaimTemplateName": "t"}],
            [
                'Invalid value: {"Name":"a","ResourceClaimName":"c",'
                f'"ResourceClaimTemplateName":"t"}}: {AT_MOST_ONE}'
            ],
        ),
        (
            [{"name": "a"}],
            [
                'Invalid value: {"Name":"a","ResourceClaimName":null,'
                f'"ResourceClaimTemplateName":null}}: {ONE}'
            ],
        ),
        ([{"resourceClaimName": "c"}], [".name: Required value"]),
        ([{**OWN, "name": "Not_ok"}], [f'.name: Invalid value: "Not_ok": {LABEL}']),
        (
            [{**OWN, "name": "l" * 64}],
            [f'.name: Invalid value: "{"l" * 64}": must be no more than 63 characters'],
        ),
        (
            [{"name": "a", "resourceClaimName": "C_"}],
            [f'.resourceClaimName: Invalid value: "C_": {SUBDOMAIN}'],
        ),
        (
            [{"name": "a", "resourceClaimTemplateName": ""}],
            [f'.resourceClaimTemplateName: Invalid value: "": {SUBDOMAIN}'],
        ),
    ],
)
def test_a_mistaken_claim_of_a_pod_is_refused(claims: list[Any], errors: list[str]) -> None:
    at = "spec.resourceClaims[0]"
    expected = [at + (text if text.startswith(".") else f": {text}") for text in errors]
    assert found("Pod", spec_of(claims, [])) == expected


def test_claims_have_different_names() -> None:
    claims = [OWN, {**OTHER, "name": "a"}]
    assert found("Pod", spec_of(claims, [])) == [
        'spec.resourceClaims[1].name: Duplicate value: "a"'
    ]


@pytest.mark.parametrize(
    ("used", "errors"),
    [
        ([("", "")], ["[0]: Required value"]),
        ([("b", "")], [f'[0]: Not found: "b": {NAMES}: a, z']),
        ([("a", "R_1")], [f'[0].request: Invalid value: "R_1": {LABEL}']),
        ([("a", ""), ("a", "")], ['[1]: Duplicate value: "a"']),
        ([("a", ""), ("a", "R_1")], ['[1]: Duplicate value: "a"']),
        ([("a", "r"), ("a", "")], ['[1]: Duplicate value: "a"']),
        ([("a", "r"), ("a", "r")], ['[1]: Duplicate value: "a/r"']),
        (
            [("a", "r"), ("a", ""), ("a", "r")],
            ['[1]: Duplicate value: "a"', '[2]: Duplicate value: "a"'],
        ),
        (
            [("b", ""), ("b", "")],
            [
                f'[0]: Not found: "b": {NAMES}: a, z',
                '[1]: Duplicate value: "b"',
                f'[1]: Not found: "b": {NAMES}: a, z',
            ],
        ),
    ],
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_a_mistaken_claim_of_a_container_is_refused(
    where: str, used: list[tuple[str, str]], errors: list[str]
) -> None:
    spec = spec_of([OWN, OTHER], [{"name": name, "request": request} for name, request in used])
    spec = {**spec, "containers": [{"name": "main", "image": "i"}], where: spec["containers"]}
    at = f"spec.{where}[0].resources.claims"
    assert found("Pod", spec) == [at + error for error in errors]


def test_a_claim_of_a_container_needs_one_of_the_pod() -> None:
    assert found("Pod", spec_of([], [{"name": "b"}])) == [
        f'spec.containers[0].resources.claims[0]: Not found: "b": {NAMES} which is empty'
    ]


def test_a_pod_as_a_whole_uses_no_claims() -> None:
    spec = spec_of([OWN], [], resources={"claims": [{"name": "zz"}], "requests": {"cpu": "1"}})
    assert found("Pod", spec) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
        f'spec.resources.claims[0]: Not found: "zz": {NAMES}: a',
    ]


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_the_claims_of_a_template_are_checked_where_it_is(kind: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec_of([{"name": "a"}], [])}
    errors = found(kind, {"selector": {"matchLabels": {"a": "b"}}, "template": template})
    assert any(
        error.startswith("spec.template.spec.resourceClaims[0]: Invalid") for error in errors
    )


def test_an_error_lists_not_more_names_than_have_room() -> None:
    claims = [{"name": f"a{number:03}", "resourceClaimName": "c"} for number in range(300)]
    (error,) = found("Pod", spec_of(claims, [{"name": "b"}]))
    assert error.endswith("a030, a031, ...")
