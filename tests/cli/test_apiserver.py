"""Every setting of an API server can be set."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

import podsched.app.apiserver
import podsched.cli.apiserver
from podsched.serve.server.access.settings import ServiceAccountSettings
from podsched.serve.server.kubelets.settings import KubeletSettings
from podsched.serve.server.settings import ServerSettings
from support.commands import Commands

FLAGS = {
    "host": ("--listen=127.0.0.2:1234", "127.0.0.2"),
    "port": ("--listen=127.0.0.2:1234", 1234),
    "compaction_interval_seconds": ("--etcd-compaction-interval=7", 7.0),
    "etcd_quota_bytes": ("--etcd-quota-bytes=12345", 12345),
    "event_ttl_seconds": ("--event-ttl=60", 60),
    "max_events": ("--max-events=17", 17),
    "kube_listen": ("--kube-listen=127.0.0.1:6443", "127.0.0.1:6443"),
    "advertise_address": ("--advertise-address=10.0.0.1", "10.0.0.1"),
    "service_cluster_ip_range": ("--service-cluster-ip-range=10.0.0.0/24", "10.0.0.0/24"),
    "max_connections": ("--max-connections=20", 20),
    "require_namespaces": ("--require-namespaces", True),
    "pod_group_claims": ("--pod-group-claims", True),
    "watch_cache_events": ("--watch-cache-events=18", 18),
    "watch_cache_bytes": ("--watch-cache-bytes=19", 19),
    "bookmark_seconds": ("--watch-bookmark-interval=2.5", 2.5),
    "worker": ("--as-worker=1/3:/run/1.sock", 1),
    "workers": ("--as-worker=1/3:/run/1.sock", 3),
}
#: Together in one call, for each needs the others.
TLS = ("tls_cert", "tls_key", "tls_client_ca")
TOKENS = ("token_file", "token_listen", "jwt")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerSettings]:
    """The settings that API servers were started with, in place of the servers."""
    settings: list[ServerSettings] = []
    monkeypatch.setattr(
        podsched.cli.apiserver, "run_or_fail", lambda _, options, start, listening: start(options)
    )
    monkeypatch.setattr(
        podsched.app.apiserver,
        "run_apiserver",
        lambda process, given, etcd: settings.append(given),
    )
    return settings


@pytest.mark.parametrize("field", FLAGS)
def test_a_flag_sets_its_setting(started: list[ServerSettings], field: str) -> None:
    flag, value = FLAGS[field]
    Commands().ok("apiserver", flag)
    assert getattr(started[0], field) == value


def test_the_tls_files_are_settings(started: list[ServerSettings], tmp_path: Path) -> None:
    given = {}
    for field in TLS:
        file = tmp_path / field
        file.touch()
        given[field] = str(file)
    Commands().ok("apiserver", *(f"--{f.replace('_', '-')}={given[f]}" for f in TLS))
    assert {field: getattr(started[0], field) for field in TLS} == given


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "api.example"])
def test_an_address_that_pods_cannot_use_is_refused(address: str) -> None:
    done = Commands()("apiserver", f"--advertise-address={address}")
    assert done.code == 2
    assert f"--advertise-address {address}: must be an IP address" in done.err


@pytest.mark.parametrize("network", ["10.0.0.0/29", "10.0.0.1/24", "services", "::/0,10.0.0.0/8"])
def test_a_network_that_services_cannot_use_is_refused(network: str) -> None:
    done = Commands()("apiserver", f"--service-cluster-ip-range={network}")
    assert done.code == 2
    assert f"--service-cluster-ip-range {network}: must be a network" in done.err


def test_a_server_that_starts_no_traces_has_no_share_of_them() -> None:
    done = Commands()("apiserver", "--trace-ratio=0.5")
    assert done.code == 2
    assert "No such option: --trace-ratio" in done.err


def test_no_setting_is_without_a_flag() -> None:
    grouped = {*TLS, *TOKENS, "audit", "kubelets", "service_accounts", "signing"}
    assert {field.name for field in fields(ServerSettings)} == {*FLAGS, *grouped}


def test_the_flags_for_kubelets_are_settings(started: list[ServerSettings], tmp_path: Path) -> None:
    given = {}
    for name in ("client_certificate", "client_key", "certificate_authority"):
        file = tmp_path / name
        file.touch()
        given[name] = str(file)
    flags = (f"--kubelet-{name.replace('_', '-')}={file}" for name, file in given.items())
    types = "--kubelet-preferred-address-types=Hostname,InternalIP"
    Commands().ok("apiserver", "--kube-listen=127.0.0.1:0", *flags, types)
    assert started[0].kubelets == KubeletSettings(
        **given, preferred_address_types="Hostname,InternalIP"
    )


def test_the_keys_of_service_accounts_are_settings(
    started: list[ServerSettings], tmp_path: Path
) -> None:
    private, other = tmp_path / "sa.key", tmp_path / "old.pub"
    for file in (private, other):
        file.touch()
    Commands().ok(
        "apiserver",
        f"--service-account-signing-key-file={private}",
        f"--service-account-key-file={other}",
        "--service-account-issuer=https://issuer.example",
        "--api-audiences=one,two",
    )
    assert started[0].service_accounts == ServiceAccountSettings(
        token_key=str(private),
        verifying_keys=(str(other),),
        account_issuer="https://issuer.example",
        api_audiences=("one", "two"),
    )


def test_keys_that_verify_need_one_that_signs(tmp_path: Path) -> None:
    key = tmp_path / "sa.pub"
    key.touch()
    ran = Commands()("apiserver", f"--service-account-key-file={key}")
    assert "needs --service-account-signing-key-file" in ran.err


def test_the_audit_log_is_a_setting(started: list[ServerSettings], tmp_path: Path) -> None:
    path, policy = tmp_path / "audit.log", tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n")
    Commands().ok(
        "apiserver", f"--audit-log={path}", f"--audit-policy={policy}", "--audit-log-maxsize=5"
    )
    audit = started[0].audit
    assert audit is not None
    assert (audit.path, audit.max_bytes, audit.policy.rules[0].level) == (path, 5 << 20, "Request")


def test_mistakes_in_an_audit_policy_are_usage_errors(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]\n")
    done = Commands()(
        "apiserver", f"--audit-log={tmp_path / 'audit.log'}", f"--audit-policy={policy}"
    )
    assert done.code == 2
    assert "rules[0].level: Unsupported value" in done.err


def test_without_flags_the_settings_have_their_defaults(started: list[ServerSettings]) -> None:
    Commands().ok("apiserver")
    assert started == [ServerSettings(host="127.0.0.1", port=7443)]
