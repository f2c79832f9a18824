"""``sched node``: show which nodes are hollow, and print what a machine needs to become a node."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, cast

import typer
import yaml

from podsched.api.columns import NONE, node_address, node_status
from podsched.api.hollow_nodes import is_hollow
from podsched.api.names import SUBDOMAIN
from podsched.api.objects import Node, Secret, seconds_of
from podsched.cli.client import Server, ServerFlags, client_options, with_client
from podsched.cli.errors import USAGE, fail, fail_on, warn
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.output import os_error_text, say
from podsched.cli.printers import aligned
from podsched.config.flags import flag
from podsched.lib.ages import age
from podsched.lib.files import read_file, write_private
from podsched.lib.network import http_url, is_loopback
from podsched.serve.kube.access import kubeconfig

app = command_group("Show which nodes are hollow, or print what a machine needs to join.")

_LONGEST_NAME = 253
#: A certificate's common name has at most 64 characters, "system:node:" included.
_LONGEST_CERTIFIED = 52
_MAX_BYTES = 1 << 20
#: Min addresses of a network of pods: the network's own, the gateway's, broadcast, and a pod's.
_FEWEST_ADDRESSES = 4
_NETWORK = "cni/10-podsched.conflist"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
#: Where kubeadm lets a kubelet look for static pods.
_STATIC_PODS = "/etc/kubernetes/manifests"
_SOCKET = "/run/containerd/containerd.sock"
#: The annotation with a bootstrap token's node (``serve.server.access.bootstrap_tokens``).
_BOUND_NODE = "podsched.io/node"


@app.command("list", cls=Command)
def list_(server: Server = "") -> None:
    """Show the nodes: hollow ones, which run nothing, and real ones with a kubelet."""
    found = cast(list[Node], with_client(server, lambda client: client.list("Node")).items)
    rows = [["NAME", "STATUS", "KIND", "KUBELET", "RUNTIME", "ADDRESS", "AGE"]]
    rows += [_row(node, time.time()) for node in sorted(found, key=lambda n: n.metadata.name)]
    say(*aligned(rows))


def _row(node: Node, now: float) -> list[str]:
    hollow, info = is_hollow(node), node.status.node_info
    return [
        node.metadata.name,
        node_status(node),
        "hollow" if hollow else "real",
        NONE if hollow else info.kubelet_version or NONE,
        NONE if hollow else info.container_runtime_version or NONE,
        str(node_address("InternalIP")(node, now)),
        age(now - seconds_of(node.metadata.creation_timestamp)),
    ]


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    kube: str = flag("", "URL")
    """Address at which the machine reaches Kubernetes' REST API, such as https://10.0.0.1:6443.
    Default: that of the kubeconfig in KUBECONFIG."""
    directory: str = flag("/var/lib/podsched-node", "DIR", names="--directory")
    """Directory of the files on the machine."""
    write: Path | None = flag(None, "DIR")
    """Instead of printing a script, write the files to this directory of this machine, and print
    the kubelet's command line."""
    node_ip: str = flag("", "ADDRESS")
    """Address of the machine, if it is not its first one."""
    containerd: bool = flag(False)
    """Also configure and start containerd."""
    pod_cidr: str = flag("", "CIDR", names="--pod-cidr")
    """Addresses of the machine's pods, such as 10.244.1.0/24: also configures a bridge network with
    these, for --containerd. You have to add routes to the pods of other machines yourself."""
    in_container: bool = flag(False)
    """The machine is a container: do not change cgroups and OOM scores of processes."""
    cgroup_driver: str = flag("cgroupfs", "cgroupfs|systemd")
    """Driver that manages cgroups on the machine; the container runtime must use the same."""
    sandbox_image: str = flag("registry.k8s.io/pause:3.10", "IMAGE")
    """Image of the container that holds a pod's network, for --containerd."""
    hours: int = flag(24, "N", min=1, max=24 * 365)
    """Hours until the token expires; the kubelet requests its first certificate with it."""


@app.command(cls=Command)
@takes_flags
def bootstrap(
    given: _Flags, name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the node.")]
) -> None:
    """Print a script that makes a machine the node NAME; it contains a secret token.

    sched node bootstrap worker-1 | ssh root@machine sh

    The machine needs kubelet and a container runtime. The token is valid only for the first
    certificate of this node; the kubelet renews its certificate itself.
    """
    if len(name) > _LONGEST_NAME or not re.fullmatch(SUBDOMAIN, name):
        fail(f'"{name}" is not a node name: use lower case letters, digits, "-" and "."', USAGE)
    if len(name) > _LONGEST_CERTIFIED:
        fail(f'"{name}": for a certificate, a name may have {_LONGEST_CERTIFIED} characters')
    if given.cgroup_driver not in ("cgroupfs", "systemd"):
        fail(f"--cgroup-driver {given.cgroup_driver}: must be cgroupfs or systemd", USAGE)
    if not re.fullmatch(r"/[-A-Za-z0-9_./]{1,200}", given.directory):
        fail(
            f"--directory {given.directory}: must be an absolute path of letters and digits", USAGE
        )
    if given.node_ip:
        _check_address(given.node_ip)
    if given.pod_cidr:
        _check_pod_cidr(given)
    url = _kube_url(given.kube)
    authority = client_options().tls_ca
    if not authority:
        fail("set SCHED_TLS_CA to the API server's CA: without TLS a token is not safe", USAGE)
    certificates = read_file(Path(authority), _MAX_BYTES)
    token = _make_token(given, name)
    files = node_files(given, url, certificates, token)
    if given.write is not None:
        _write(given.write, files)
        say(" ".join(_kubelet(given, name)))
        return
    say(script(given, name, files))


def _check_address(text: str) -> None:
    try:
        address = ip_address(text)
    except ValueError:
        fail(f"--node-ip {text}: not an IP address", USAGE)
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        fail(f"--node-ip {text}: API servers cannot reach such an address", USAGE)


def _check_pod_cidr(given: _Flags) -> None:
    with fail_on(ValueError, about=f"--pod-cidr {given.pod_cidr}", code=USAGE):
        network = ip_network(given.pod_cidr)
    if network.num_addresses < _FEWEST_ADDRESSES:
        fail(f"--pod-cidr {given.pod_cidr}: has fewer than {_FEWEST_ADDRESSES} addresses", USAGE)
    if not given.containerd:
        fail("--pod-cidr needs --containerd, which uses the network", USAGE)


def _kube_url(given: str) -> str:
    """Return the URL of the REST API; exit if there is none that a kubelet can use."""
    url = given or _url_of_kubeconfig(os.environ.get("KUBECONFIG", ""))
    parts = http_url(url)
    if parts is None or parts.scheme != "https" or parts.path not in ("", "/"):
        source = "--kube" if given else "KUBECONFIG"
        hint = ": kubelets need TLS, as sched up --tls has it" if url.startswith("http:") else ""
        fail(f'{source}: "{url}" is not https://HOST:PORT{hint}', USAGE)
    if is_loopback(parts.hostname or ""):
        warn(f"{url} can be reached only from this machine")
    return url.rstrip("/")


def _url_of_kubeconfig(path: str) -> str:
    if not path:
        fail("give the address of Kubernetes' REST API: --kube https://HOST:PORT", USAGE)
    try:
        content = yaml.safe_load(read_file(Path(path), _MAX_BYTES))
        context = next(
            c["context"] for c in content["contexts"] if c["name"] == content["current-context"]
        )
        named = (c["cluster"] for c in content["clusters"] if c["name"] == context["cluster"])
        return str(next(named)["server"])
    except OSError as exc:
        fail(f"{path}: {os_error_text(exc)}", USAGE)
    except (yaml.YAMLError, KeyError, TypeError, ValueError, StopIteration):
        fail(f"{path}: not a kubeconfig with a current context; give --kube", USAGE)


def _make_token(given: _Flags, node: str) -> str:
    """Create a bootstrap token for a node; return it."""
    identifier, secret = ("".join(secrets.choice(_LETTERS) for _ in range(n)) for n in (6, 16))
    expires = datetime.now(UTC) + timedelta(hours=given.hours)
    data = {
        "token-id": identifier,
        "token-secret": secret,
        "description": f"first certificate of node {node}",
        "expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "usage-bootstrap-authentication": "true",
    }
    item = Secret(type="bootstrap.kubernetes.io/token")
    item.metadata.namespace, item.metadata.name = "kube-system", f"bootstrap-token-{identifier}"
    item.metadata.annotations[_BOUND_NODE] = node
    for key, value in data.items():
        item.data[key] = base64.b64encode(value.encode()).decode()

    with_client(given.server, lambda client: client.create(item))
    return f"{identifier}.{secret}"


def node_files(given: _Flags, url: str, certificates: bytes, token: str) -> dict[str, str]:
    """Return the contents of a machine's files by name."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(certificates).decode()}
    files = {
        # Beside the certificates, a file may have words in any encoding.
        "ca.crt": certificates.decode(errors="replace"),
        "bootstrap-kubeconfig": kubeconfig(cluster, {"token": token}),
        "kubelet.yaml": yaml.safe_dump(kubelet_configuration(given), sort_keys=False),
    }
    if given.containerd:
        files["containerd.toml"] = _containerd(given)
    if given.pod_cidr:
        files[_NETWORK] = json.dumps(_network(given.pod_cidr), indent=2)
    return files


def _network(pod_cidr: str) -> dict[str, Any]:
    """Return the CNI configuration of a bridge for the pods of a machine."""
    everywhere = "::/0" if ":" in pod_cidr else "0.0.0.0/0"
    ranges, routes = [[{"subnet": pod_cidr}]], [{"dst": everywhere}]
    addresses = {"type": "host-local", "ranges": ranges, "routes": routes}
    bridge = {
        "type": "bridge",
        "bridge": "podsched0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "podsched", "plugins": [bridge, ports]}


def kubelet_configuration(given: _Flags) -> dict[str, Any]:
    """Return the KubeletConfiguration of a machine."""
    in_container = {"failCgroupV1": False, "cgroupsPerQOS": False, "enforceNodeAllocatable": []}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Answers are JSON.
        "contentType": "application/json",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{given.directory}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        # Both certificates are requested from the API server, and renewed before they expire.
        "rotateCertificates": True,
        "serverTLSBootstrap": True,
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "cgroupDriver": given.cgroup_driver,
        "clusterDomain": "cluster.local",
        "failSwapOn": False,
        "staticPodPath": _STATIC_PODS,
        **(in_container if given.in_container else {}),
    }


def _containerd(given: _Flags) -> str:
    systemd = "true" if given.cgroup_driver == "systemd" else "false"
    plugin = 'plugins."io.containerd.grpc.v1.cri"'
    scores = "\n  restrict_oom_score_adj = true" if given.in_container else ""
    network = f'\n[{plugin}.cni]\n  conf_dir = "{given.directory}/cni"\n' if given.pod_cidr else ""
    return f"""version = 2

[grpc]
  address = "{_SOCKET}"

[{plugin}]
  sandbox_image = "{given.sandbox_image}"{scores}
{network}
[{plugin}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{plugin}.containerd.runtimes.runc.options]
  SystemdCgroup = {systemd}
"""


def _kubelet(given: _Flags, name: str) -> list[str]:
    """Return the kubelet's command line."""
    where = given.directory
    return [
        "kubelet",
        f"--config={where}/kubelet.yaml",
        f"--bootstrap-kubeconfig={where}/bootstrap-kubeconfig",
        f"--kubeconfig={where}/kubeconfig",
        f"--cert-dir={where}/pki",
        f"--hostname-override={name}",
        *([f"--node-ip={given.node_ip}"] if given.node_ip else []),
    ]


def script(given: _Flags, name: str, files: dict[str, str]) -> str:
    """Return a script that writes the files and starts the kubelet."""
    lines = [
        "#!/bin/sh",
        f"# Makes this machine the node {name}. Contains a secret token.",
        "set -e",
    ]
    lines += ["umask 077", f"mkdir -p {given.directory} {_STATIC_PODS}", f"cd {given.directory}"]
    for file, content in files.items():
        lines += [f"mkdir -p {parent}"] if (parent := file.rpartition("/")[0]) else []
        lines += [f"cat > {file} <<'END_OF_FILE'", content.rstrip("\n"), "END_OF_FILE"]
    if given.containerd:
        lines += [
            f"containerd --config {given.directory}/containerd.toml > containerd.log 2>&1 &",
            f"while [ ! -S {_SOCKET} ]; do sleep 1; done",
        ]
    lines.append("exec " + " ".join(map(shlex.quote, _kubelet(given, name))))
    return "\n".join(lines)


def _write(directory: Path, files: dict[str, str]) -> None:
    """Write files that only their owner may read."""
    with fail_on(OSError, about=directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).parent.mkdir(mode=0o700, exist_ok=True)
            write_private(directory / name, content)
