"""Settings of authentication; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.config.flags import flag

_TOKENS, _ACCOUNTS, _SIGNING = "Tokens", "ServiceAccounts", "Certificates of kubelets"


class AccessError(Exception):
    """Keys or tokens that cannot be loaded or used; the message names their file or URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """Settings of accepted JSON Web Tokens."""

    issuer: str = flag("", "NAME", _TOKENS, names="--jwt-issuer")
    """Issuer (iss) of the JSON Web Tokens that are accepted."""
    audience: str = flag("", "NAME", _TOKENS, names="--jwt-audience")
    """Required audience (aud).

    Tokens for other audiences are refused.
    """
    jwks: str = flag("", "FILE|URL", _TOKENS, names="--jwt-jwks")
    """Public keys to verify them with, as a JSON Web Key Set."""
    user_claim: str = flag("sub", "CLAIM", _TOKENS, names="--jwt-user-claim")
    """Claim with the user."""
    groups_claim: str = flag("groups", "CLAIM", _TOKENS, names="--jwt-groups-claim")
    """Claim with the groups."""

    @property
    def is_url(self) -> bool:
        """Whether the keys are at a URL."""
        return self.jwks.startswith(("https://", "http://"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSettings:
    """Settings of ServiceAccount tokens; names and meaning are kube-apiserver's."""

    token_key: str = flag("", "FILE", _ACCOUNTS, names="--service-account-signing-key-file")
    """Private key that signs the tokens of ServiceAccounts.

    Without it there are no such tokens, and pods get no volume with one.
    """
    verifying_keys: tuple[str, ...] = flag(
        (), "FILE[,...]", _ACCOUNTS, names="--service-account-key-file"
    )
    """Further keys that tokens are verified with, of which public ones are enough."""
    account_issuer: str = flag(
        "https://kubernetes.default.svc.cluster.local",
        "URL",
        _ACCOUNTS,
        names="--service-account-issuer",
    )
    """Issuer (iss) of these tokens."""
    api_audiences: tuple[str, ...] = flag((), "NAME[,...]", _ACCOUNTS, names="--api-audiences")
    """Audiences (aud) whose tokens are accepted, and that a token gets which asks for none; by
    default the issuer."""

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this API."""
        return self.api_audiences or (self.account_issuer,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSettings:
    """Settings of kubelets' certificates; names and meaning are kube-controller-manager's."""

    signing_cert: str = flag("", "FILE", _SIGNING, names="--cluster-signing-cert-file")
    """Certificate of the authority that signs the client certificates of kubelets."""
    signing_key: str = flag("", "FILE", _SIGNING, names="--cluster-signing-key-file")
    """Private key of --cluster-signing-cert-file.

    It can make certificates of every user.
    """
    serving_cert: str = flag(
        "", "FILE", _SIGNING, names="--cluster-signing-kubelet-serving-cert-file"
    )
    """Certificate of the authority that signs the serving certificates of kubelets. By default
    --cluster-signing-cert-file, and then requests wait until someone approves them.

    Take one that is used for nothing else.
    """
    serving_key: str = flag(
        "", "FILE", _SIGNING, names="--cluster-signing-kubelet-serving-key-file"
    )
    """Private key of --cluster-signing-kubelet-serving-cert-file."""
    signing_duration: int = flag(
        365 * 86_400, "SECONDS", _SIGNING, names="--cluster-signing-duration", min=600
    )
    """Time for which these certificates are valid, unless a request asks for less."""
