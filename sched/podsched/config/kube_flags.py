"""Refuse kube-scheduler's command-line flags (v1.36) that ``sched scheduler`` does not have.

The message says what to use instead. Without it, the flag would be an unknown option.
docs/kube-scheduler-flags.md lists all flags; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NO_WEBHOOKS = "podsched authenticates callers of its endpoints by client certificates alone"
_NO_RATE = "set clientConnection.qps and burst in the configuration"
_TLS_STACK = "OpenSSL's configuration on this machine sets ciphers and curves"
_HTTP1 = "the endpoints use only HTTP/1.1"
_SHARING = "ports are never shared"
_LOGS = "each line is written to standard error at once"

REFUSED: Mapping[str, str] = {
    "--tls-sni-cert-key": "use one certificate for all names, with --tls-cert-file",
    "--tls-cipher-suites": _TLS_STACK,
    "--tls-curve-preferences": _TLS_STACK,
    "--disable-http2-serving": f"{_HTTP1}: omit the flag",
    "--http2-max-streams-per-connection": _HTTP1,
    "--permit-port-sharing": _SHARING,
    "--permit-address-sharing": _SHARING,
    "--authentication-kubeconfig": _NO_WEBHOOKS,
    "--authentication-skip-lookup": _NO_WEBHOOKS,
    "--authentication-token-webhook-cache-ttl": _NO_WEBHOOKS,
    "--authentication-tolerate-lookup-failure": _NO_WEBHOOKS,
    "--requestheader-username-headers": _NO_WEBHOOKS,
    "--requestheader-uid-headers": _NO_WEBHOOKS,
    "--requestheader-group-headers": _NO_WEBHOOKS,
    "--requestheader-extra-headers-prefix": _NO_WEBHOOKS,
    "--requestheader-client-ca-file": _NO_WEBHOOKS,
    "--requestheader-allowed-names": _NO_WEBHOOKS,
    "--authorization-kubeconfig": _NO_WEBHOOKS,
    "--authorization-webhook-cache-authorized-ttl": _NO_WEBHOOKS,
    "--authorization-webhook-cache-unauthorized-ttl": _NO_WEBHOOKS,
    "--kube-api-content-type": "podsched requests JSON from a Kubernetes API server",
    "--kube-api-qps": _NO_RATE,
    "--kube-api-burst": _NO_RATE,
    "--show-hidden-metrics-for-version": "no metric is hidden",
    "--allow-metric-labels": "relabel in the scraper; no label has unbounded values",
    "--allow-metric-labels-manifest": "relabel in the scraper",
    "--log-flush-frequency": _LOGS,
    "--log-text-split-stream": _LOGS,
    "--log-text-info-buffer-size": _LOGS,
    "--log-json-split-stream": _LOGS,
    "--log-json-info-buffer-size": _LOGS,
}


def refusals(arguments: Sequence[str]) -> list[str]:
    """Return a message for each argument that is such a flag, with what to use instead."""
    names = dict.fromkeys(a.partition("=")[0] for a in arguments if a.startswith("--"))
    return [f"{name}: {REFUSED[name]}" for name in names if name in REFUSED]
