"""What our messages hold without a schema has the types that Kubernetes gives it."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.kubernetes_fields import misfits


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("Probe", {"httpGet": {"port": "http"}, "periodSeconds": 5.0}),
        ("Probe", {"tcpSocket": {"port": 80}, "periodSeconds": None}),
        ("HostAlias[]", [{"ip": "10.0.0.1", "hostnames": ["a"]}, None]),
        ("EmptyDirVolumeSource", {"sizeLimit": 1024}),
        ("StatefulSetUpdateStrategy", {"rollingUpdate": {"partition": 1, "maxUnavailable": "1%"}}),
    ],
)
def test_what_typed_clients_can_decode_fits(form: str, value: object) -> None:
    assert not list(misfits(value, form, "x"))


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        ("Probe", {"periodSeconds": "5"}, ("x.periodSeconds", "5", "an integer")),
        ("Probe", {"periodSeconds": True}, ("x.periodSeconds", True, "an integer")),
        ("Probe", {"periodSeconds": 0.5}, ("x.periodSeconds", 0.5, "an integer")),
        ("Probe", {"httpGet": []}, ("x.httpGet", [], "an object")),
        ("Probe", {"httpget": {}}, ("x.httpget", {}, "")),
        ("Probe", [], ("x", [], "an object")),
        ("HostAlias[]", {}, ("x", {}, "an array")),
        ("HostAlias[]", [{"ip": 1}], ("x[0].ip", 1, "a string")),
        ("EmptyDirVolumeSource", {"sizeLimit": "big"}, ("x.sizeLimit", "big", "a quantity")),
        ("SecurityContext", {"privileged": "true"}, ("x.privileged", "true", "a boolean")),
    ],
)
def test_what_they_cannot_decode_is_found(
    form: str, value: Any, expected: tuple[str, object, str]
) -> None:
    assert list(misfits(value, form, "x")) == [expected]
