"""Settings of the API server's connections to kubelets; names and meaning are kube-apiserver's."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.config.flags import flag

_PANEL = "Kubelets"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """How kubelets are reached, for logs, exec, attach, port-forward, proxies and metrics."""

    client_certificate: str = flag("", "FILE", _PANEL, names="--kubelet-client-certificate")
    """Client certificate that kubelets are shown; without it they see an anonymous caller."""
    client_key: str = flag("", "FILE", _PANEL, names="--kubelet-client-key")
    """Private key of --kubelet-client-certificate."""
    certificate_authority: str = flag("", "FILE", _PANEL, names="--kubelet-certificate-authority")
    """CA certificates to verify kubelets' serving certificates with; without them any certificate
    is accepted."""
    preferred_address_types: str = flag(
        "InternalIP,ExternalIP,Hostname", "TYPES", _PANEL, names="--kubelet-preferred-address-types"
    )
    """Types of node addresses by which a kubelet is reached, the first that a node has; of
    Hostname, InternalDNS, InternalIP, ExternalDNS and ExternalIP.

    kube-apiserver begins with Hostname. Here addresses come first, because names of nodes are
    often not in DNS; kubeadm sets the same.
    """

    @property
    def address_types(self) -> tuple[str, ...]:
        """The types of addresses, the preferred first."""
        return tuple(part.strip() for part in self.preferred_address_types.split(","))
