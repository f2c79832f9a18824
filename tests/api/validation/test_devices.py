"""Rules of DeviceClasses, ResourceClaims and their templates."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

import pytest

from podsched.api.defaulting import default_claim_status, default_object
from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import AnyObject, RawJSON, ResourceClaim
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate, validate_status
from support.processor_time import exceeds

API = "resource.k8s.io/v1"
GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
EITHER = {
    "name": "nic",
    "firstAvailable": [{"name": "fast", "deviceClassName": "fast.example.com"}],
}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
NESTED = "[" * 99 + "]" * 99
POD = {"resource": "pods", "name": "p", "uid": "1"}


def made(kind: str, spec: dict[str, Any], **fields: Any) -> AnyObject:
    metadata = {"name": "c"} | ({} if kind == "DeviceClass" else {"namespace": "default"})
    head = {"apiVersion": API, "kind": kind, "metadata": metadata}
    message = from_manifest({**head, "spec": spec, **fields}).message
    default_object(message, now=1, uid="u", priority_classes=PriorityClasses([]))
    return message


def claim(*requests: dict[str, Any], status: Any = None, **devices: Any) -> ResourceClaim:
    spec = {"devices": {"requests": [*(requests or (GPU,))], **devices}}
    item = made("ResourceClaim", spec, **({"status": status} if status else {}))
    assert isinstance(item, ResourceClaim)
    return item


def complaints(item: AnyObject, old: AnyObject | None = None) -> list[str]:
    return [str(error) for error in validate(type(item).__name__, item, old)]


def allocation(*results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"devices": {"results": [*(results or (RESULT,))]}, **fields}


def status_complaints(new: ResourceClaim, old: ResourceClaim) -> list[str]:
    default_claim_status(new, old)
    return [str(error) for error in validate_status("ResourceClaim", new, old)]


def test_a_request_asks_for_one_device_unless_it_says_otherwise() -> None:
    tolerant = deepcopy(GPU)
    tolerant["exactly"]["tolerations"] = [{"key": "example.com/worn"}]  # type: ignore[index]
    every = {"name": "all", "exactly": {"deviceClassName": "c", "allocationMode": "All"}}
    requests = to_manifest(claim(tolerant, every, EITHER))["spec"]["devices"]["requests"]
    exactly = requests[0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)
    assert exactly["tolerations"] == [{"key": "example.com/worn", "operator": "Equal"}]
    assert "count" not in requests[1]["exactly"]
    assert requests[2]["firstAvailable"][0]["count"] == 1
    assert complaints(claim(tolerant, every, EITHER)) == []


@pytest.mark.parametrize(
    ("request_", "wrong"),
    [
        (
            {"name": "r"},
            ": Required value: exactly one of `exactly` or `firstAvailable` is required",
        ),
        (
            {**GPU, "firstAvailable": EITHER["firstAvailable"]},
            ": Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but "
            "multiple fields are set",
        ),
        (
            {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "All", "count": 2}},
            ".exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
        ),
        (
            {"name": "r", "exactly": {"deviceClassName": "c", "count": -1}},
            ".exactly.count: Invalid value: -1: must be greater than zero",
        ),
        (
            {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "Some"}},
            '.exactly.allocationMode: Unsupported value: "Some": supported values: "All", '
            '"ExactCount"',
        ),
        ({"name": "r", "exactly": {}}, ".exactly.deviceClassName: Required value"),
        (
            {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{}]}},
            ".exactly.selectors[0].cel: Required value",
        ),
        (
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "c",
                    "selectors": [{"cel": {"expression": "t" * 10_241}}],
                },
            },
            ".exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes",
        ),
        (
            {
                "name": "r",
                "exactly": {
                    "deviceClassName": "c",
                    "tolerations": [{"operator": "Exists", "value": "x"}],
                },
            },
            '.exactly.tolerations[0].value: Invalid value: "x": must be empty for operator '
            "`Exists`",
        ),
    ],
)
def test_a_request_says_once_what_it_asks_for(request_: dict[str, Any], wrong: str) -> None:
    assert complaints(claim(request_)) == [f"spec.devices.requests[0]{wrong}"]


@pytest.mark.parametrize(
    ("text", "wrong"), [("1500m", False), ("-1", False), ("9" * 5000, True), ("1GiB", True)]
)
def test_amounts_of_capacity_are_quantities(text: str, wrong: bool) -> None:
    amounts = {"gpu.example.com/memory": text}
    asked = {"deviceClassName": "c", "capacity": {"requests": amounts}}
    found = complaints(claim({"name": "gpu", "exactly": asked}))
    result = {**RESULT, "consumedCapacity": amounts}
    found += status_complaints(claim(status={"allocation": allocation(result)}), claim())
    assert len(found) == (2 if wrong else 0)
    assert all("quantities must match the regular expression" in each for each in found)


def asking(*expressions: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}}


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ('device.driver == "gpu.example.com"', ""),
        ("device.nothing", 'Invalid value: "device.nothing": compilation failed: '),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            f"{'[1, 2, 3, 4].all(x, ' * 10}true{')' * 10}",
            "Forbidden: too complex, exceeds cost limit",
        ),
    ],
)
def test_selectors_compile_and_are_not_too_expensive(expression: str, wrong: str) -> None:
    found = complaints(claim(asking(expression)))
    assert len(found) == bool(wrong)
    for each in found:
        assert each.startswith("spec.devices.requests[0].exactly.selectors[0].cel.expression: ")
        assert wrong in each


def test_selectors_of_one_object_are_not_too_long_together() -> None:
    """Each of them alone could be: compiling them all would take seconds."""
    wrong = "selectors may not have more than 32768 bytes together"
    many = [" " * 10_000 + "device.driver"] * 4
    assert complaints(claim(asking(*many))) == [f"spec.devices.requests: Too long: {wrong}"]
    assert len(complaints(claim(asking(*many[:3])))) == 3
    selectors = asking(*many)["exactly"]["selectors"]
    found = complaints(made("DeviceClass", {"selectors": selectors}))
    assert found == [f"spec.selectors: Too long: {wrong}"]


def test_the_patterns_of_one_object_are_not_too_large_together() -> None:
    """A thousand selectors of a few bytes would take half a minute to compile."""
    wrong = "selectors may not have more than 50000 instructions of regular expressions together"
    many = [rf'device.driver.matches("\\pL{{{n}}}")' for n in range(10, 30)]
    assert complaints(claim(asking(*many[:2]))) == []
    [found] = complaints(claim(asking(*many)))
    assert found.endswith(f".cel.expression: Too long: {wrong}")


@pytest.mark.parametrize(
    "selectors",
    [
        [f"optional.of({n}){'.optMap(x, x)' * 11}.hasValue()" for n in range(32)],
        [f"{n} == 0{f' || [] == {NESTED}' * 48}" for n in range(3)],
    ],
    ids=["operands that macros use twice", "lists within lists"],
)
def test_the_selectors_of_one_object_compile_in_a_second(selectors: list[str]) -> None:
    """The server answers nobody else meanwhile: it would have taken up to two minutes."""
    start = time.process_time()
    assert complaints(claim(asking(*selectors))) == []
    assert not exceeds(time.process_time() - start, 1.5)


def test_after_many_expressions_that_do_not_compile_no_more_are_tried() -> None:
    alternatives = [
        {**asking(*[f"device.driver == {n}" for n in range(a * 32, a * 32 + 32)])["exactly"]}
        for a in range(2)
    ]
    named = [{"name": f"n{i}", **each} for i, each in enumerate(alternatives)]
    found = complaints(claim({"name": "gpu", "firstAvailable": named}))
    assert 30 < len(found) < 40
    assert found[-1].endswith("instructions of regular expressions together")


def test_the_requests_of_a_claim_have_different_names() -> None:
    assert complaints(claim(GPU, GPU)) == ['spec.devices.requests[1]: Duplicate value: "gpu"']


@pytest.mark.parametrize(
    ("reference", "known"),
    [("gpu", True), ("nic", True), ("nic/fast", True), ("gpu/fast", False), ("nic/slow", False)],
)
def test_constraints_and_configuration_name_requests(reference: str, known: bool) -> None:
    constraint = {"requests": [reference], "matchAttribute": "example.com/numa"}
    config = {
        "requests": [reference],
        "opaque": {"driver": "d.example.com", "parameters": {"a": 1}},
    }
    found = complaints(claim(GPU, EITHER, constraints=[constraint], config=[config]))
    assert len(found) == (0 if known else 2)
    assert all("must be the name of a request in the claim" in each for each in found)


def test_a_constraint_names_an_attribute_with_its_domain() -> None:
    found = complaints(claim(constraints=[{"matchAttribute": "numa"}, {}]))
    assert found == [
        'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": a fully qualified '
        "name must be a domain and a name separated by a slash",
        'spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or '
        '"distinctAttribute" is required, but multiple fields are set',
    ]


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_the_spec_of_a_claim_and_of_a_template_stays(kind: str) -> None:
    def item(name: str) -> AnyObject:
        devices = {"devices": {"requests": [{**GPU, "name": name}]}}
        return made(kind, devices if kind == "ResourceClaim" else {"spec": devices})

    assert complaints(item("a"), item("a")) == []
    (found,) = complaints(item("b"), item("a"))
    assert found.startswith("spec: Invalid value: {")
    assert found.endswith(": field is immutable")


def test_a_class_that_is_stored_may_keep_its_long_parameters() -> None:
    def item(size: int, serves: str = "example.com/gpu") -> AnyObject:
        opaque = {"driver": "d.example.com", "parameters": {"a": "x" * size}}
        return made("DeviceClass", {"config": [{"opaque": opaque}], "extendedResourceName": serves})

    (found,) = complaints(item(10_240))
    assert found == "spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"
    assert complaints(item(10_240, "example.com/other"), item(10_240)) == []
    assert len(complaints(item(10_241), item(10_240))) == 1


@pytest.mark.parametrize("name", ["gpu", "kubernetes.io/gpu", "requests.example.com/gpu", "a/b/c"])
def test_a_class_serves_extended_resources_only(name: str) -> None:
    (found,) = complaints(made("DeviceClass", {"extendedResourceName": name}))
    assert found.endswith("must be a valid extended resource name")


@pytest.mark.parametrize("text", ["{", "[]", "[" * 50_000])
def test_parameters_that_are_no_json_object_are_refused_whatever_else_is_wrong(text: str) -> None:
    old, new = claim(), claim()
    config = new.spec.devices.config.add()
    config.opaque.driver = "d.example.com"
    config.opaque.parameters.CopyFrom(RawJSON(text=text))
    for before in (None, old):
        (found,) = complaints(new, before)
        assert found.startswith("spec.devices.config[0].opaque.parameters: Invalid value")


# ------------------------------------------------------------------ status


def test_an_allocation_is_set_and_cleared_and_not_changed() -> None:
    old, new = claim(), claim(status={"allocation": allocation()})
    assert status_complaints(new, old) == []
    assert status_complaints(old, new) == []
    other = claim(status={"allocation": allocation({**RESULT, "device": "gpu-1"})})
    (found,) = status_complaints(other, new)
    assert found.startswith("status.allocation: Invalid value: {")
    assert found.endswith(": field is immutable")


def test_only_an_allocated_claim_is_reserved() -> None:
    (found,) = status_complaints(claim(status={"reservedFor": [POD]}), claim())
    assert found == (
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"
    )


def test_a_claim_that_is_being_deleted_gets_no_new_consumer() -> None:
    old = claim(status={"allocation": allocation(), "reservedFor": [POD]})
    new = claim(status={"allocation": allocation(), "reservedFor": [POD, {**POD, "uid": "2"}]})
    assert status_complaints(new, old) == []
    old.metadata.deletion_timestamp.GetCurrentTime()
    new.metadata.CopyFrom(old.metadata)
    (found,) = status_complaints(new, old)
    assert found.startswith("status.reservedFor: Forbidden: new entries may not be added while")
    assert status_complaints(old, new) == [], "consumers may leave"


def test_consumers_are_bounded_and_different() -> None:
    many = [{**POD, "uid": str(index)} for index in range(257)]
    item = claim(status={"allocation": allocation(), "reservedFor": many})
    found = status_complaints(item, claim())
    assert found == ["status.reservedFor: Too many: 257: must have at most 256 items"]
    item = claim(status={"allocation": allocation(), "reservedFor": [POD, POD]})
    assert status_complaints(item, claim()) == ['status.reservedFor[1]: Duplicate value: "1"']


def test_drivers_tell_of_allocated_devices_only() -> None:
    told = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-7"}
    item = claim(status={"allocation": allocation(), "devices": [told]})
    assert status_complaints(item, claim()) == [
        'status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"node-1",'
        '"Device":"gpu-7","ShareID":""}: must be an allocated device in the claim'
    ]


def test_what_was_told_of_a_device_goes_with_its_allocation() -> None:
    told = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    old = claim(status={"allocation": allocation(), "devices": [told]})
    new = claim(status={"devices": [told]})
    assert status_complaints(new, old) == []
    assert not new.status.devices


@pytest.mark.parametrize(
    ("share", "wrong"),
    [
        ("0b7c54b3-2f1c-4b64-9d2e-5a1f6b9f8a11", ""),
        ("x", "error validating uid: invalid UUID length: 1"),
        ("0b7c54b3-2f1c-4b64-9d2e-5a1f6b9f8axx", "error validating uid: invalid UUID format"),
        ("0b7c54b32f1c4b649d2e5a1f6b9f8a11", "uid must be in RFC 4122 normalized form"),
        ("0B7C54B3-2F1C-4B64-9D2E-5A1F6B9F8A11", "uid must be in RFC 4122 normalized form"),
    ],
)
def test_a_share_is_a_uuid_in_its_usual_form(share: str, wrong: str) -> None:
    item = claim(status={"allocation": allocation({**RESULT, "shareID": share})})
    found = status_complaints(item, claim())
    assert len(found) == bool(wrong)
    assert all(wrong in each for each in found)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, ""),
        ({"type": ""}, 'type: Invalid value: "": name part must be non-empty'),
        ({"status": ""}, 'status: Unsupported value: "": supported values: "False", "True", '),
        ({"reason": ""}, "reason: Required value"),
        ({"reason": "1st"}, 'reason: Invalid value: "1st": a condition reason must start with'),
        ({"lastTransitionTime": None}, "lastTransitionTime: Required value"),
        (
            {"observedGeneration": -1},
            "observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        ),
        ({"message": "x" * 32_769}, "message: Too long: may not be more than 32768 bytes"),
    ],
)
def test_drivers_tell_conditions_in_full(fields: dict[str, Any], wrong: str) -> None:
    whole = {"type": "Ready", "status": "True", "reason": "Up", "message": ""}
    condition = {**whole, "lastTransitionTime": "2026-02-01T10:00:00Z", **fields}
    told = {key: value for key, value in RESULT.items() if key != "request"}
    told["conditions"] = [condition]  # type: ignore[assignment]
    item = claim(status={"allocation": allocation(), "devices": [told]})
    found = status_complaints(item, claim())
    assert bool(found) == bool(wrong)
    assert not wrong or found[0].startswith(f"status.devices[0].conditions[0].{wrong}")
    assert not any("must be set" in each for each in found)


def test_an_object_with_a_fault_is_shown_with_its_letters() -> None:
    told = {**{key: value for key, value in RESULT.items() if key != "request"}, "device": "gré"}
    item = claim(status={"allocation": allocation(), "devices": [told]})
    assert any('"Device":"gré"' in each for each in status_complaints(item, claim()))


def test_tolerations_of_an_allocation_are_those_of_the_request_and_not_checked() -> None:
    tolerations = [{"key": "a b", "operator": "In"}] * 17
    item = claim(status={"allocation": allocation({**RESULT, "tolerations": tolerations})})
    assert status_complaints(item, claim()) == []


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("10.1.2.3/24", ""),
        ("2001:db8::1/64", ""),
        ("10.1.2.3", "must be a valid address in CIDR form"),
        ("10.1.2.3/33", "must be a valid address in CIDR form"),
        ("10.1.2.3/255.255.255.0", "must be a valid address in CIDR form"),
        ("10.01.2.3/24", 'must be in canonical form ("10.1.2.3/24")'),
        ("2001:0db8::1/64", 'must be in canonical form ("2001:db8::1/64")'),
    ],
)
def test_addresses_are_told_in_their_usual_form(address: str, wrong: str) -> None:
    told = {**RESULT, "networkData": {"ips": [address]}}
    del told["request"]
    found = status_complaints(
        claim(status={"allocation": allocation(), "devices": [told]}), claim()
    )
    assert len(found) == bool(wrong)
    assert all(wrong in each for each in found)


def test_a_class_that_breaks_a_newer_rule_can_lose_a_finalizer() -> None:
    stored = made("DeviceClass", {"extendedResourceName": "gpu"})
    assert complaints(stored)
    stored.metadata.finalizers.append("example.com/hold")
    freed = deepcopy(stored)
    del freed.metadata.finalizers[:]
    assert complaints(freed, stored) == []
