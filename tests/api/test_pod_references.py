"""What a pod refers to."""

from __future__ import annotations

from podsched.api.manifest import from_manifest, load_documents
from podsched.api.objects import Pod
from podsched.api.pod_references import references, token_audiences

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  serviceAccountName: builder
  imagePullSecrets: [{name: pull}]
  resourceClaims: [{name: gpu, resourceClaimName: claim}]
  initContainers:
  - name: i
    env:
    - {name: A, valueFrom: {secretKeyRef: {name: env-secret, key: k}}}
    - {name: B, valueFrom: {configMapKeyRef: {name: env-map, key: k}}}
  containers:
  - name: c
    envFrom: [{secretRef: {name: all-secret}}, {configMapRef: {name: all-map}}]
  volumes:
  - {name: a, secret: {secretName: vol-secret}}
  - {name: b, configMap: {name: vol-map}}
  - {name: c, persistentVolumeClaim: {claimName: pvc}}
  - name: d
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}
  - name: e
    projected:
      sources:
      - {secret: {name: pro-secret}}
      - {configMap: {name: pro-map}}
      - {serviceAccountToken: {audience: vault, path: t}}
      - {serviceAccountToken: {path: u}}
  - {name: f, csi: {driver: d, nodePublishSecretRef: {name: csi-secret}}}
  - {name: g, cephfs: {monitors: [m], secretRef: {name: ceph-secret}}}
  - {name: h, azureFile: {shareName: s, secretName: azure-secret}}
"""


def the_pod() -> Pod:
    pod = from_manifest(load_documents(MANIFEST)[0]).message
    assert isinstance(pod, Pod)
    return pod


def test_everything_that_the_kubelet_needs_is_found() -> None:
    assert {found for found in references(the_pod()) if found[1]} == {
        ("ServiceAccount", "builder"),
        ("ResourceClaim", "claim"),
        ("PersistentVolumeClaim", "pvc"),
        ("PersistentVolumeClaim", "p-d"),
        *(("Secret", f"{n}-secret") for n in ("env", "all", "vol", "pro", "csi", "ceph", "azure")),
        ("Secret", "pull"),
        *(("ConfigMap", f"{n}-map") for n in ("env", "all", "vol", "pro")),
    }


def test_the_audiences_of_its_tokens_are_found() -> None:
    assert token_audiences(the_pod()) == {"vault", ""}
