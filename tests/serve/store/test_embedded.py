"""What the user reads when the embedded etcd ends at once."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import EmbeddedEtcdError

_PANIC = """\
{"level":"panic","msg":"failed to create WAL","error":"no space left on device"}
panic: failed to create WAL

goroutine 1 [running]:
main.main()
\tserver/main.go:32 +0x45
"""


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (_PANIC, "failed to create WAL: no space left on device"),
        ("flag provided but not defined\n", "flag provided but not defined"),
        ("", "no output"),
    ],
)
async def test_the_reason_of_an_etcd_that_ends_at_once_is_what_it_reported(
    tmp_path: Path, said: str, reason: str
) -> None:
    (tmp_path / "said").write_text(said)
    binary = tmp_path / "etcd"
    binary.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    binary.chmod(0o700)
    etcd = EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "data", binary=binary))
    with pytest.raises(EmbeddedEtcdError) as caught:
        await etcd.start()
    assert str(caught.value) == f"etcd ended at once: {reason} (see {etcd.log_file})"


async def test_data_that_another_etcd_uses_are_refused_at_once(tmp_path: Path) -> None:
    database = tmp_path / "member" / "snap" / "db"
    database.parent.mkdir(parents=True)
    etcd = EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path, binary=Path("/bin/false")))
    with database.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedEtcdError) as caught:
            await etcd.start()
    expected = f"another etcd uses {tmp_path}: stop it, or choose another directory"
    assert str(caught.value) == expected
    with pytest.raises(EmbeddedEtcdError, match="ended at once"):
        await etcd.start()
