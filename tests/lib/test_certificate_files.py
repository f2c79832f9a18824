"""Certificate files that change."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.lib.certificate_files import CertificateFiles
from support.certificates import make_certificates


def test_files_that_are_not_given_do_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of the working directory: each connection would read the others again."""
    (tmp_path / "certs").mkdir()
    made = make_certificates(tmp_path / "certs")
    monkeypatch.chdir(tmp_path)
    files = CertificateFiles("", made.cert, made.key)
    (tmp_path / "new").touch()
    assert not files.changed(print)
