"""Make and renew the certificates of all roles, for ``sched certs`` and ``sched up --tls``.

    DIR/ca.crt, DIR/ROLE.crt, DIR/ROLE.key ...                 in one directory, or
    DIR/ROLE/ca.crt, DIR/ROLE/ROLE.crt, DIR/ROLE/ROLE.key ...  one for each role's machines

The authority's key is in DIR/ca.key or DIR/ca/ca.key. The API server also has the key of
ServiceAccount tokens (sa.key and sa.pub, as kubeadm names them), and an authority only for
kubelets' serving certificates (kubelet-ca.crt). Non-goals: those of ``lib.certificates``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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

#: As long as kubeadm's: the authority outlives the certificates that are renewed under it.
AUTHORITY_DAYS = 3650
#: The key that signs tokens of ServiceAccounts.
SIGNING_KEY = "sa.key"
#: The authority of kubelets' serving certificates.
KUBELET_CA = "kubelet-ca"
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The contents of new certificates."""

    hosts: Sequence[str] = ()
    """Names and addresses of all processes that listen, besides this machine's loopback."""
    node: str = "node-*"
    """The agent's node, or the common prefix of all nodes that it plays and "*"."""
    days: int = 365
    """How long they are valid."""


@dataclass(frozen=True, slots=True)
class Made:
    """A certificate file; ``new``: whether it was made now."""

    path: Path
    request: Request
    new: bool


def requests_of(wanted: Wanted) -> dict[str, Request]:
    """Return the request of each role's certificate. Schedulers and agents are servers, too."""
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
        # The user that API servers are for kubelets; a ClusterRole is bound to it.
        "kubelet-client": Request("kube-apiserver-kubelet-client"),
        # Members call each other, so each is a server and a client.
        "etcd": Request("etcd", (), hosts, both),
        "etcd-client": Request("podsched-etcd-client"),
        "ray": Request("ray", (), hosts, both),
        # It has no roles: it only reads metrics, for which any certificate is enough.
        "monitoring": Request("podsched-monitoring"),
    }


def make_missing(directory: Path, wanted: Wanted, *, per_role: bool = False) -> list[Made]:
    """Make the authority and the certificates that are missing; overwrite nothing.

    ``per_role``: each role has its own directory. Raises OSError, and CertificateError for a
    request that cannot be certified or an authority without its key.
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
    """Return the API server's other files that are missing, by path below the directory."""
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
    """Return the files of new certificates, and of the authority if it is new, by path."""
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
        if shared != str(root) and not os.path.lexists(directory / shared):
            files[shared] = authority.certificate_pem
    return files


def _files(name: str, pair: Pair) -> dict[str, bytes]:
    return {name: pair.certificate_pem, str(Path(name).with_suffix(".key")): pair.key_pem}


def renew(directory: Path, days: int) -> list[tuple[Path, str]]:
    """Replace the certificates of the directory's authority by new ones with the same contents.

    Each gets a new key. Returns the file of each certificate, and why it was not replaced, or "".
    Raises OSError, and CertificateError without an authority and its key.
    """
    root = _root(directory)
    authority = read_pair(root)
    done = []
    for path in sorted((*directory.glob("*.crt"), *directory.glob("*/*.crt"))):
        if path.name in ("ca.crt", f"{KUBELET_CA}.crt"):
            continue
        # Its key is not read: after an interrupted renewal it belongs to another certificate.
        old = read_certificate(path)
        if not is_certified_by(old, authority.certificate):
            done.append((path, f"not of the authority in {root}"))
            continue
        new = renewed(authority, old, days)
        # A process that reads in between finds a key that does not match, and keeps its old pair.
        replace_file(path.with_suffix(".key"), new.key_pem)
        replace_file(path, new.certificate_pem)
        done.append((path, ""))
    return done


def days_of_authority(directory: Path) -> int:
    """Return for how many days the directory's authority is valid.

    Raises OSError, and CertificateError without one.
    """
    left = read_certificate(_root(directory)).not_valid_after_utc - datetime.now(UTC)
    return round(left / timedelta(days=1))


def _root(directory: Path) -> Path:
    """Return the file of the directory's authority. Raises CertificateError without one."""
    roots = (directory / "ca.crt", directory / "ca" / "ca.crt")
    root = next((path for path in roots if path.exists()), None)
    if root is None:
        raise CertificateError(f"{directory}: no ca.crt here: sched certs init makes one")
    return root
