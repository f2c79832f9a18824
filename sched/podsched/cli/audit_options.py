"""Options of ``sched apiserver`` about the audit log, and the settings made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.errors import USAGE, fail, invalid_settings_fail
from podsched.lib.files import open_file
from podsched.serve.server.audit.log import AuditSettings
from podsched.serve.server.audit.policy import EVERYTHING, AuditPolicy, parse_policy

_AUDIT = "Audit"
#: Bytes of a policy file.
_MOST = 1 << 20

AuditLogFile = Annotated[
    Path | None,
    typer.Option(
        "--audit-log",
        metavar="FILE",
        rich_help_panel=_AUDIT,
        help="File for the audit log; without it there is none.",
    ),
]
AuditPolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--audit-policy",
        metavar="FILE",
        rich_help_panel=_AUDIT,
        help="audit.k8s.io/v1 Policy: what is written; without it, Metadata of every call.",
    ),
]
AuditMaxSize = Annotated[
    int,
    typer.Option(
        "--audit-log-maxsize",
        metavar="MB",
        min=1,
        rich_help_panel=_AUDIT,
        help="Size at which a new file is begun.",
    ),
]
AuditMaxBackup = Annotated[
    int,
    typer.Option(
        "--audit-log-maxbackup",
        metavar="N",
        min=0,
        rich_help_panel=_AUDIT,
        help="Number of earlier files kept; 0 keeps all.",
    ),
]
AuditMaxAge = Annotated[
    int,
    typer.Option(
        "--audit-log-maxage",
        metavar="DAYS",
        min=0,
        rich_help_panel=_AUDIT,
        help="Days for which earlier files are kept; 0 keeps them for ever.",
    ),
]


def audit_settings(
    audit_log: AuditLogFile = None,
    audit_policy: AuditPolicyFile = None,
    audit_log_maxsize: AuditMaxSize = 100,
    audit_log_maxbackup: AuditMaxBackup = 10,
    audit_log_maxage: AuditMaxAge = 0,
) -> AuditSettings | None:
    """Return the settings of the audit log, None for none; exit if they are invalid."""
    if audit_log is None:
        if audit_policy is not None:
            fail("--audit-policy needs --audit-log", USAGE)
        return None
    return AuditSettings(
        path=audit_log,
        policy=EVERYTHING if audit_policy is None else _policy(audit_policy),
        max_bytes=audit_log_maxsize << 20,
        max_backups=audit_log_maxbackup,
        max_days=audit_log_maxage,
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
