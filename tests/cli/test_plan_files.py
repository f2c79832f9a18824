"""Plans that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from podsched import __version__
from podsched.cli import plan_files


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "podsched" / "plans"


def test_a_plan_is_found_by_its_token_and_is_its_users_alone(state: Path) -> None:
    token = plan_files.save({"kind": "Plan", "writes": []})
    assert plan_files.load(token) == {"kind": "Plan", "writes": []}
    [file] = state.iterdir()
    assert (state.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("is_kept", [True, False], ids=["by token", "by name"])
def test_a_plan_that_was_altered_is_refused(
    state: Path, tmp_path: Path, is_kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.plan"
    token = plan_files.save({"kind": "Plan", "writes": []}, None if is_kept else file)
    path, name = (state / f"{token}.json", token) if is_kept else (file, str(file))
    path.write_text(path.read_text().replace("[]", '["more"]'))
    with pytest.raises(typer.Exit):
        plan_files.load(name)
    assert "was changed since" in capsys.readouterr().err


def test_a_plan_of_another_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.plan"
    plan_files.save({"kind": "Plan"}, file)
    file.write_text(file.read_text().replace(__version__, "0.0.9"))
    with pytest.raises(typer.Exit):
        plan_files.load(str(file))
    assert "another version of podsched made it" in capsys.readouterr().err


def test_a_plan_is_read_as_it_was_written_whatever_its_configuration_has_as_keys(
    tmp_path: Path,
) -> None:
    file = tmp_path / "my.plan"
    plan_files.save({"kind": "Plan", "config": {10: "x", 9: 0.1}}, file)
    assert plan_files.load(str(file))["config"] == {"10": "x", "9": 0.1}


def test_a_plan_in_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    plan_files.save({"kind": "Plan"}, tmp_path / "my.plan")
    assert plan_files.load(str(tmp_path / "my.plan")) == {"kind": "Plan"}


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"kind": "Pod"}', pytest.param("[" * 100_000, id="deep")]
)
def test_what_is_no_plan_is_refused(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text(content)
    with pytest.raises(typer.Exit) as ended:
        plan_files.load(str(tmp_path / "other"))
    assert ended.value.exit_code == 2
    assert "not a plan" in capsys.readouterr().err


def test_only_the_latest_plans_are_kept(state: Path) -> None:
    tokens = [plan_files.save({"kind": "Plan", "number": number}) for number in range(60)]
    assert len(list(state.iterdir())) == 50
    assert plan_files.load(tokens[-1])["number"] == 59
