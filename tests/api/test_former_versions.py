"""Manifests of former versions."""

from __future__ import annotations

import pytest

from podsched.api.manifest import ManifestError, from_manifest, load_documents, to_manifest

FORMER = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: q}
spec:
  cohort: all
  admissionChecks: [budget]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: q, namespace: d}
spec: {clusterQueue: q}
"""


def test_queues_of_v1beta1_are_read() -> None:
    queue, local = (from_manifest(each, strict=True).message for each in load_documents(FORMER))
    assert to_manifest(queue)["spec"] == {
        "cohortName": "all",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    }
    assert to_manifest(local)["apiVersion"] == "kueue.x-k8s.io/v1beta2"


@pytest.mark.parametrize("spec", ["[]", "{flavorFungibility: 1}", "{admissionChecks: {a: b}}"])
def test_a_former_manifest_with_a_mistake_is_refused_as_such(spec: str) -> None:
    text = f"{{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, spec: {spec}}}"
    (document,) = load_documents(text)
    with pytest.raises(ManifestError):
        from_manifest(document, strict=True)
