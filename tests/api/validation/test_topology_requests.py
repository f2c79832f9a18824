"""The annotations by which pods ask for levels of a Topology."""

from __future__ import annotations

import json

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.validation import validate

REQUIRED, PREFERRED, UNCONSTRAINED, LEVEL, LAYERS = (
    f"kueue.x-k8s.io/podset-{name}"
    for name in (
        "required-topology",
        "preferred-topology",
        "unconstrained-topology",
        "slice-required-topology",
        "slice-required-topology-constraints",
    )
)
SIZE = "kueue.x-k8s.io/podset-slice-size"
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def layers(*sizes: tuple[str, int]) -> str:
    return json.dumps([{"topology": name, "size": size} for name, size in sizes])


def complaints(annotations: dict[str, str], kind: str = "Pod") -> list[str]:
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    manifest = {
        "apiVersion": {"Pod": "v1", "PodTemplate": "v1"}.get(kind, "scheduling.k8s.io/v1alpha2"),
        "kind": kind,
        "metadata": {"name": "p", "namespace": "d", "annotations": annotations},
        "spec": spec,
    }
    if kind == "PodTemplate":
        manifest |= {"metadata": {"name": "p", "namespace": "d"}}
        manifest["template"] = {"metadata": {"annotations": annotations}, "spec": spec}
        del manifest["spec"]
    if kind == "PodGroup":
        manifest["spec"] = {"schedulingPolicy": {"basic": {}}}
    return [str(error) for error in validate(kind, from_manifest(manifest).message, None)]


@pytest.mark.parametrize(
    "annotations",
    [
        {REQUIRED: RACK},
        {PREFERRED: RACK, LEVEL: HOST, SIZE: "2"},
        {UNCONSTRAINED: "True"},
        {LAYERS: layers((RACK, 8), (HOST, 4))},
    ],
)
def test_levels_and_slices_of_whole_pods_are_accepted(annotations: dict[str, str]) -> None:
    for kind in ("Pod", "PodGroup", "PodTemplate"):
        assert complaints(annotations, kind) == []


@pytest.mark.parametrize(
    ("annotations", "where", "why"),
    [
        ({REQUIRED: "a b"}, f"[{REQUIRED}]", "name part must consist of"),
        ({LEVEL: "a b", SIZE: "1"}, f"[{LEVEL}]", "name part must consist of"),
        ({UNCONSTRAINED: "yes"}, f"[{UNCONSTRAINED}]", "must be a boolean value"),
        ({LEVEL: RACK, SIZE: "x"}, f"[{SIZE}]", "must be a numeric value"),
        ({LEVEL: RACK, SIZE: "-1"}, f"[{SIZE}]", "must be greater than or equal to 1"),
        ({LEVEL: RACK}, f"[{SIZE}]", f"must be set when '{LEVEL}' is specified"),
        ({SIZE: "2"}, f"[{SIZE}]", f"may not be set when '{LEVEL}' is not specified"),
        (
            {REQUIRED: RACK, PREFERRED: RACK},
            "",
            "must not contain more than one topology annotation: "
            f'["{REQUIRED}", "{PREFERRED}", "{UNCONSTRAINED}"]',
        ),
        ({LAYERS: "{}"}, f"[{LAYERS}]", "must be a valid JSON array"),
        ({LAYERS: '[{"size": "2"}]'}, f"[{LAYERS}]", "must be a valid JSON array"),
        ({LAYERS: layers((RACK, 1 << 31))}, f"[{LAYERS}]", "must be a valid JSON array"),
        (
            {LAYERS: "[]"},
            f"[{LAYERS}]",
            "topology constraints must contain between 1 and 3 entries",
        ),
        (
            {LAYERS: layers((RACK, 4)), LEVEL: RACK, SIZE: "4"},
            f"[{LAYERS}]",
            f"may not be set when '{LEVEL}' is specified",
        ),
        (
            {LAYERS: layers((RACK, 4), (RACK, 2))},
            f"[{LAYERS}][1].topology",
            f"{RACK} (also at index 0)",
        ),
        (
            {LAYERS: layers((RACK, 4), (HOST, 3))},
            f"[{LAYERS}][1].size",
            "must evenly divide the parent layer size 4",
        ),
        (
            {LAYERS: layers((RACK, 0))},
            f"[{LAYERS}][0].size",
            "must be greater than or equal to 1",
        ),
    ],
)
def test_other_annotations_are_refused(annotations: dict[str, str], where: str, why: str) -> None:
    found = complaints(annotations)
    assert any(one.startswith(f"metadata.annotations{where}: ") and why in one for one in found)
