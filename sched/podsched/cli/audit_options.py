"""Options of ``sched apiserver`` about the audit log, and the settings made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podsched.cli.errors import USAGE, fail, invalid_settings_fail
from podsched.config.flags import flag
from podsched.lib.files import open_file
from podsched.serve.server.audit.log import AuditSettings
from podsched.serve.server.audit.policy import EVERYTHING, AuditPolicy, parse_policy

_PANEL = "Audit"
#: Bytes of a policy file.
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class AuditFlags:
    """What is written about calls, and for how long it is kept."""

    audit_log: Path | None = flag(None, "FILE", _PANEL)
    """File for the audit log; without it there is none."""
    audit_policy: Path | None = flag(None, "FILE", _PANEL)
    """audit.k8s.io/v1 Policy: what is written; without it, Metadata of every call."""
    audit_log_maxsize: int = flag(100, "MB", _PANEL, min=1)
    """Size at which a new file is begun."""
    audit_log_maxbackup: int = flag(10, "N", _PANEL, min=0)
    """Number of earlier files kept; 0 keeps all."""
    audit_log_maxage: int = flag(0, "DAYS", _PANEL, min=0)
    """Days for which earlier files are kept; 0 keeps them for ever."""

    def settings(self) -> AuditSettings | None:
        """Return the settings of the audit log, None for none; exit if they are invalid."""
        if self.audit_log is None:
            if self.audit_policy is not None:
                fail("--audit-policy needs --audit-log", USAGE)
            return None
        return AuditSettings(
            path=self.audit_log,
            policy=EVERYTHING if self.audit_policy is None else _policy(self.audit_policy),
            max_bytes=self.audit_log_maxsize << 20,
            max_backups=self.audit_log_maxbackup,
            max_days=self.audit_log_maxage,
        )


def _policy(path: Path) -> AuditPolicy:
    try:
        with open_file(path) as stream:
            content = stream.read(_MOST + 1)
    except OSError as exc:
        fail(f"--audit-policy {path}: {exc.strerror or exc}", USAGE)
    if len(content) > _MOST:
        fail(f"--audit-policy {path}: more than 1 MiB", USAGE)
    try:
        text = content.decode()
    except UnicodeDecodeError as exc:
        fail(f"--audit-policy {path}: {exc}", USAGE)
    with invalid_settings_fail():
        return parse_policy(text, str(path))
