"""LimitRange admission: defaults of containers, and the bounds of containers, pods and claims."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.limit_ranges import (
    ANNOTATION,
    aggregate,
    apply_limit_ranges,
    claim_errors,
    default_limit_range,
)
from podsched.api.manifest import from_manifest
from podsched.api.objects import LimitRange, PersistentVolumeClaim, Pod


def limit_range(*items: dict[str, Any]) -> LimitRange:
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": list(items)}}
    message = from_manifest({**manifest, "metadata": {"name": "limits"}}).message
    assert isinstance(message, LimitRange)
    default_limit_range(message)
    return message


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """Resources by container, named a, b and so on."""
    named = [{"name": chr(97 + i), "resources": r} for i, r in enumerate(containers)]
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    message = from_manifest({**manifest, "spec": {"containers": named, **spec}}).message
    assert isinstance(message, Pod)
    return message


def claim(size: str) -> PersistentVolumeClaim:
    item = PersistentVolumeClaim()
    item.spec.resources.requests["storage"] = size
    return item


def test_a_range_completes_itself() -> None:
    """Limits come from max, requests from limits, and from min where there is neither."""
    item = limit_range({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}})
    assert item.spec.limits[0].default == {"cpu": "2"}
    assert item.spec.limits[0].default_request == {"cpu": "2", "memory": "1Mi"}


def test_containers_get_what_they_lack_and_the_pod_tells() -> None:
    item = pod({}, {"requests": {"cpu": "1"}}, initContainers=[{"name": "i"}])
    defaults = {
        "type": "Container",
        "default": {"memory": "1Gi"},
        "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
    }
    assert apply_limit_ranges(item, [limit_range(defaults)]) == []
    first, second = (c.resources for c in item.spec.containers)
    assert (first.requests, first.limits) == ({"cpu": "100m", "memory": "64Mi"}, {"memory": "1Gi"})
    assert second.requests == {"cpu": "1", "memory": "64Mi"}
    assert item.metadata.annotations[ANNOTATION] == (
        "LimitRanger plugin set: cpu, memory request for container a; memory limit for container a;"
        " memory request for container b; memory limit for container b;"
        " cpu, memory request for init container i; memory limit for init container i"
    )


@pytest.mark.parametrize(
    ("item", "resources", "error"),
    [
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Pod is 1, but request is 500m",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}},
            "minimum cpu usage per Pod is 1, but limit is 500m",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"requests": {"memory": "1"}},
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}},
            "maximum memory usage per Pod is 1Gi, but request is 2Gi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "1"}},
            "cpu max limit to request ratio per Pod is 2, "
            "but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Pod is 2, but no limit is specified or limit is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "400m"}, "limits": {"cpu": "1"}},
            "cpu max limit to request ratio per Pod is 2, but provided ratio is 2.500000",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "Container"])
def test_what_is_out_of_bounds_is_told_as_kubernetes_does(
    kind: str, item: dict[str, Any], resources: dict[str, Any], error: str
) -> None:
    ranges = [limit_range({"type": "Pod", **item})]
    ranges[0].spec.limits[0].type = kind  # without defaults, which would fill in what is missing
    assert apply_limit_ranges(pod(resources), ranges) == [error.replace("per Pod", f"per {kind}")]


def test_what_is_within_the_bounds_is_accepted() -> None:
    item = {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}}
    half = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    ratio = {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}
    assert apply_limit_ranges(pod(half, half), [limit_range(item, ratio)]) == []


def test_a_ratio_beyond_all_floats_is_told_too() -> None:
    ratio = {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}
    huge = {"requests": {"cpu": "1"}, "limits": {"cpu": "9e400"}}
    [found] = apply_limit_ranges(pod(huge), [limit_range(ratio)])
    assert found.endswith(f"provided ratio is 9{400 * '0'}.000000")


def test_a_pods_sum_is_written_like_its_parts() -> None:
    item = {"type": "Pod", "max": {"memory": "128Mi"}}
    part = {"limits": {"memory": "96Mi"}}
    found = apply_limit_ranges(pod(part, part), [limit_range(item)])
    assert found == ["maximum memory usage per Pod is 128Mi, but limit is 192Mi"]


def test_overhead_is_not_limited() -> None:
    item = pod({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, overhead={"cpu": "5"})
    assert apply_limit_ranges(item, [limit_range({"type": "Pod", "max": {"cpu": "1"}})]) == []


def test_quantities_that_cannot_be_read_are_left_to_validation() -> None:
    item = pod({"requests": {"cpu": "much"}})
    assert apply_limit_ranges(item, [limit_range({"type": "Pod", "min": {"cpu": "1"}})]) == []


def test_a_claim_has_a_least_and_a_largest_size() -> None:
    sizes = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "9Gi"}}
    ranges = [limit_range(sizes)]
    assert claim_errors(claim("5Gi"), ranges) == []
    rule = "storage usage per PersistentVolumeClaim is"
    assert claim_errors(claim("1Mi"), ranges) == [f"minimum {rule} 1Gi, but request is 1Mi"]
    assert claim_errors(claim("10Gi"), ranges) == [f"maximum {rule} 9Gi, but request is 10Gi"]
    assert claim_errors(PersistentVolumeClaim(), ranges) == [
        f"minimum {rule} 1Gi.  No request is specified",
        f"maximum {rule} 9Gi.  No request is specified",
    ]


def test_of_an_update_only_a_size_that_changes_is_checked() -> None:
    ranges = [limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})]
    assert claim_errors(claim("5Gi"), ranges, claim("5Gi")) == []
    assert claim_errors(claim("6Gi"), ranges, claim("5Gi")) != []


def test_several_errors_are_one_text() -> None:
    assert aggregate(["a"]) == "a"
    assert aggregate(["a", "b", "a"]) == "[a, b]"
