"""A machine joins over TLS with bootstrap token, certificate and tokens; kubectl is the machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from podsched.api.hollow_nodes import HOLLOW_LABEL
from support.commands import Commands
from support.eventually import eventually_blocking
from support.kube_cluster import KubeCluster

pytestmark = pytest.mark.integration
NODE = "real-1"


def request(user: str, groups: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A certificate signing request, and its key."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM), private


def signing_request(name: str, pem: bytes, signer: str) -> str:
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": signer,
        "usages": ["digital signature", "client auth"],
    }
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return json.dumps({**head, "metadata": {"name": name}, "spec": spec})


class Machine:
    """What a machine does with the files that it was given."""

    def __init__(self, kube: KubeCluster, directory: Path) -> None:
        self.kube = kube
        self.directory = directory

    def kubectl(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        file = self.directory / "kubeconfig"
        if not file.exists():
            file = self.directory / "bootstrap-kubeconfig"
        return self.kube.kubectl(f"--kubeconfig={file}", *arguments, code=code, stdin=stdin)

    def request_certificate(self) -> None:
        """As a kubelet does at its first start."""
        pem, key = request(f"system:node:{NODE}", ("system:nodes",))
        signer = "kubernetes.io/kube-apiserver-client-kubelet"
        self.kubectl("create", "-f", "-", stdin=signing_request("first", pem, signer))
        found = ""

        def issued() -> bool:
            nonlocal found
            path = "jsonpath={.status.certificate}"
            found = self.kubectl("get", "csr", "first", "-o", path)
            return bool(found)

        eventually_blocking("the certificate", issued)
        content = yaml.safe_load((self.directory / "bootstrap-kubeconfig").read_text())
        content["users"][0]["user"] = {
            "client-certificate-data": found,
            "client-key-data": base64.b64encode(key).decode(),
        }
        (self.directory / "kubeconfig").write_text(yaml.safe_dump(content))


@pytest.fixture
def machine(
    kube: KubeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """The files of ``sched node bootstrap``, before the first certificate."""
    files = kube.cluster.tls.files_of("admin")
    assert files is not None
    monkeypatch.setenv("KUBECONFIG", kube.kubeconfig)
    for name, path in (("CA", files.authorities), ("CERT", files.certificate), ("KEY", files.key)):
        monkeypatch.setenv(f"SCHED_TLS_{name}", path)
    commands = Commands(kube.cluster.server)
    said = commands.ok("node", "bootstrap", NODE, f"--write={tmp_path}")
    assert f"--hostname-override={NODE}" in said
    yield Machine(kube, tmp_path)
    kube.kubectl("delete", "csr", "first", "second", "--ignore-not-found")
    kube.kubectl("delete", "node", NODE, "--ignore-not-found")


def pod(name: str, node: str, secret: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    volume = {"name": "s", "secret": {"secretName": secret}}
    spec = {"nodeName": node, "containers": [container], "volumes": [volume]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_machine_gets_its_certificate_and_tokens_for_its_pods(machine: Machine) -> None:
    kube = machine.kube
    assert "system:bootstrap:" in machine.kubectl("auth", "whoami")
    assert "Forbidden" in machine.kubectl("get", "pods", code=1)
    machine.request_certificate()
    assert f"system:node:{NODE}" in machine.kubectl("auth", "whoami")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    machine.kubectl("create", "-f", "-", stdin=json.dumps(node))
    for name in ("mine", "other"):
        kube.kubectl("create", "secret", "generic", name, "--from-literal=a=b")
    kube.kubectl("create", "-f", "-", stdin=json.dumps(pod("of-machine", NODE, "mine")))

    assert machine.kubectl("get", "secret", "mine", "-o", "name") == "secret/mine\n"
    assert "Forbidden" in machine.kubectl("get", "secret", "other", code=1)
    label = ("label", "node", NODE, "node-restriction.kubernetes.io/a=b")
    assert "may not set the labels" in machine.kubectl(*label, code=1)

    found = json.loads(kube.kubectl("get", "pod", "of-machine", "-o", "json"))
    mounts = found["spec"]["containers"][0]["volumeMounts"]
    assert mounts[0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    bound = [f"--bound-object-{k}={v}" for k, v in (("kind", "Pod"), ("name", "of-machine"))]
    uid = found["metadata"]["uid"]
    # The leader makes it, soon after it has become one.
    accounts = ("get", "serviceaccounts", "-o", "name")
    eventually_blocking("the account", lambda: "default" in kube.kubectl(*accounts))
    token = machine.kubectl("create", "token", "default", *bound, f"--bound-object-uid={uid}")
    refused = machine.kubectl("create", "token", "default", code=1)
    assert "not bound to a pod" in refused
    check_token(machine, token.strip())
    kube.kubectl("delete", "secret", "mine", "other")


def check_token(machine: Machine, token: str) -> None:
    """The pod's token is accepted until the pod is gone."""
    content = yaml.safe_load((machine.directory / "bootstrap-kubeconfig").read_text())
    content["users"][0]["user"] = {"token": token}
    file = machine.directory / "of-pod"
    file.write_text(yaml.safe_dump(content))
    kube = machine.kube
    who = kube.kubectl(f"--kubeconfig={file}", "auth", "whoami")
    assert "system:serviceaccount:default:default" in who
    kube.kubectl("delete", "pod", "of-machine", "--grace-period=0", "--force")
    said = kube.kubectl(f"--kubeconfig={file}", "auth", "whoami", code=1)
    assert "Unauthorized" in said or "logged in" in said


def test_what_is_not_approved_at_once_is_approved_with_kubectl(machine: Machine) -> None:
    pem, _ = request("system:node:elsewhere", ("system:nodes",))
    signer = "kubernetes.io/kube-apiserver-client-kubelet"
    machine.kubectl("create", "-f", "-", stdin=signing_request("second", pem, signer))
    row = machine.kube.kubectl("get", "csr", "second", "--no-headers")
    assert row.split()[-1] == "Pending", "the token is for another node"
    machine.kube.kubectl("certificate", "approve", "second")

    def issued() -> bool:
        row = machine.kube.kubectl("get", "csr", "second", "--no-headers")
        return row.split()[-1] == "Approved,Issued"

    eventually_blocking("the certificate", issued)


def test_the_list_of_nodes_tells_hollow_ones(machine: Machine) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
    machine.kube.kubectl("create", "-f", "-", stdin=json.dumps(node))
    rows = Commands(machine.kube.cluster.server).ok("node", "list").splitlines()
    kinds = {row.split()[0]: row.split()[2] for row in rows[1:]}
    assert kinds.pop(NODE) == "real"
    assert set(kinds.values()) == {"hollow"}
    assert HOLLOW_LABEL in machine.kube.kubectl("get", "node", "node-0000", "-o", "yaml")
