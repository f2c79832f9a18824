"""Certificates of all roles in a directory, as ``sched certs`` and ``sched up --tls`` make them.

    DIR/ca.crt, DIR/ROLE.crt, DIR/ROLE.key ...                 in one directory, or
    DIR/ROLE/ca.crt, DIR/ROLE/ROLE.crt, DIR/ROLE/ROLE.key ...  one for each role's machines

with the authority's key in DIR/ca.key or DIR/ca/ca.key. Beside the API server's certificate are the
key of ServiceAccount tokens, sa.key, with its public key sa.pub, as kubeadm names them, and
kubelet-ca.crt, an authority for kubelets' serving certificates alone. Non-goals: those of
``lib.certificates``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podsched.lib.certificate_error import CertificateError
from podsched.lib.certificates import (
    CLIENT,
    SERVER,
    Pair,
    Request,
    certify,
    is_certified_by,
    new_authority,
    new_signing_key,
    read_certificate,
    read_pair,
    renewed,
    replace_file,
    write_new,
)

#: The authority outlives the certificates that are renewed under it; kubeadm's does as long.
AUTHORITY_DAYS = 3650
#: The key that signs tokens of ServiceAccounts.
SIGNING_KEY = "sa.key"
#: The authority of kubelets' serving certificates.
KUBELET_CA = "kubelet-ca"
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What certificates are to say."""

    hosts: Sequence[str] = ()
    """Names and addresses of all that listen, besides this machine's loopback."""
    node: str = "node-*"
    """Node of the agent, or the prefix of all nodes that it plays and "*"."""
    days: int = 365


@dataclass(frozen=True, slots=True)
class Made:
    """One certificate file, and whether it was made now or was there already."""

    path: Path
    request: Request
    new: bool


def requests_of(wanted: Wanted) -> dict[str, Request]:
    """Return what is certified for each role; schedulers and agents listen, too."""
    hosts = tuple(dict.fromkeys((*_LOCAL, *wanted.hosts)))
    both = (SERVER, CLIENT)
    node = f"system:node:{wanted.node}"
    # The agent is a node's agent. It also binds claims to volumes, and creates DeviceClasses.
    agent = ("system:nodes", "system:volume-controllers", "system:hollow-devices")
    return {
        "server": Request("kube-apiserver", (), hosts, (SERVER,)),
        "scheduler": Request("system:kube-scheduler", (), hosts, both),
        "agent": Request(node, agent, hosts, both),
        "admin": Request("admin", ("system:masters",)),
        # How kubelets know API servers; a ClusterRole is bound to this user.
        "kubelet-client": Request("kube-apiserver-kubelet-client"),
        # Members call each other, and so need both.
        "etcd": Request("etcd", (), hosts, both),
        "etcd-client": Request("podsched-etcd-client"),
        "ray": Request("ray", (), hosts, both),
        # No role lets it do anything: it reads metrics, for which any certificate will do.
        "monitoring": Request("podsched-monitoring"),
    }


def make_missing(directory: Path, wanted: Wanted, *, per_role: bool = False) -> list[Made]:
    """Make the authority and the certificates that are not there; overwrite nothing.

    ``per_role``: in a directory for each role. Raises CertificateError for a request that cannot be
    certified or an authority without its key, OSError.
    """

    def place(role: str, file: str) -> str:
        return f"{role}/{file}" if per_role else file

    requests = requests_of(wanted)
    missing = [
        role for role in requests if not os.path.lexists(directory / place(role, f"{role}.crt"))
    ]
    made = [
        Made(directory / place(role, f"{role}.crt"), request, role in missing)
        for role, request in requests.items()
    ]
    files = _of_server(directory, place)
    if missing:
        files |= _certificates(
            directory, place, {role: requests[role] for role in missing}, wanted.days
        )
    if files:
        write_new(directory, files)
    return made


def _of_server(directory: Path, place: Callable[[str, str], str]) -> dict[str, bytes]:
    """Return what the API server has beside its certificate, as far as it is missing."""
    files: dict[str, bytes] = {}
    accounts, kubelets = place("server", SIGNING_KEY), place("server", f"{KUBELET_CA}.crt")
    if not os.path.lexists(directory / accounts):
        private, public = new_signing_key()
        files |= {accounts: private, str(Path(accounts).with_suffix(".pub")): public}
    if not os.path.lexists(directory / kubelets):
        files |= _files(kubelets, new_authority("podsched kubelet CA", AUTHORITY_DAYS))
    return files


def _certificates(
    directory: Path,
    place: Callable[[str, str], str],
    requests: Mapping[str, Request],
    days: int,
) -> dict[str, bytes]:
    """Return the files of roles' certificates, and those of the authority if it is new."""
    root = Path(place("ca", "ca.crt"))
    files: dict[str, bytes] = {}
    if os.path.lexists(directory / root):
        authority = read_pair(directory / root)
    else:
        authority = new_authority("podsched CA", AUTHORITY_DAYS)
        files |= _files(str(root), authority)
    for role, request in requests.items():
        files |= _files(place(role, f"{role}.crt"), certify(authority, request, days))
        shared = place(role, "ca.crt")
        if shared != str(root):
            files[shared] = authority.certificate_pem
    return files


def _files(name: str, pair: Pair) -> dict[str, bytes]:
    return {name: pair.certificate_pem, str(Path(name).with_suffix(".key")): pair.key_pem}


def renew(directory: Path, days: int) -> list[tuple[Path, str]]:
    """Replace the certificates under the directory's authority by ones that say the same.

    Each gets a new key. Returns each certificate's file, and why it was left, "" if it was not.
    Raises CertificateError without an authority and its key, OSError.
    """
    roots = (directory / "ca.crt", directory / "ca" / "ca.crt")
    root = next((path for path in roots if path.exists()), None)
    if root is None:
        raise CertificateError(f"{directory}: no ca.crt here: sched certs init makes one")
    authority = read_pair(root)
    done = []
    for path in sorted((*directory.glob("*.crt"), *directory.glob("*/*.crt"))):
        if path.name in ("ca.crt", f"{KUBELET_CA}.crt"):
            continue
        # Its key is not needed: after a renewal that was interrupted it may be a new one's.
        old = read_certificate(path)
        if not is_certified_by(old, authority.certificate):
            done.append((path, f"not of the authority in {root}"))
            continue
        new = renewed(authority, old, days)
        # Those who look in between find a key of another certificate, and keep what they have.
        replace_file(path.with_suffix(".key"), new.key_pem)
        replace_file(path, new.certificate_pem)
        done.append((path, ""))
    return done
