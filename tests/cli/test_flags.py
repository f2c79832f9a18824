"""Options that are made of the fields of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from podsched.cli.flags import takes_flags
from podsched.config.errors import ConfigError, invalid
from podsched.config.flags import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    node_pods: int = flag(110, "N", min=1)
    """Pods."""
    zones: tuple[str, ...] = flag(("a",), "ZONE[,...]")
    """Zones."""
    adopt: bool = flag(False)
    """Adopt."""
    period: float = flag(1.0, "SECONDS", "Times", "--every -e", envvar="EVERY")
    """Period.

    As long as that.
    """
    inner: str = "no flag"

    def __post_init__(self) -> None:
        if self.period > 10:
            raise ConfigError([invalid("period", self.period, "too long")])


@takes_flags
def show(settings: Settings, name: str = "x") -> None:
    """Show settings."""
    print(name, settings)


def called(*arguments: str, code: int = 0) -> str:
    app = typer.Typer()
    app.command()(show)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.output


def shown(name: str = "x", **fields: object) -> str:
    return f"{name} {Settings(**fields)}\n"  # type: ignore[arg-type]


def test_without_options_the_settings_have_their_defaults() -> None:
    assert called() == shown()


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (["--node-pods", "3"], {"node_pods": 3}),
        (["--zones", "b, c,"], {"zones": ("b", "c")}),
        (["--zones", ""], {"zones": ()}),
        (["--adopt"], {"adopt": True}),
        (["-e", "2"], {"period": 2.0}),
        (["--every=2", "--name=y"], {"period": 2.0, "name": "y"}),
    ],
)
def test_options_set_the_fields_of_their_names(
    arguments: list[str], fields: dict[str, object]
) -> None:
    assert called(*arguments) == shown(**fields)  # type: ignore[arg-type]


def test_the_environment_stands_in_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERY", "3")
    assert called() == shown(period=3.0)


Level = Annotated[int, typer.Option("--level", "-l", help="A level.", max=9)]


@dataclass(frozen=True, slots=True)
class WithShared:
    level: Level = flag(2)


def test_a_field_can_be_an_option_that_commands_share() -> None:
    @takes_flags
    def level(settings: WithShared) -> None:
        """Show the settings."""
        print(settings.level)

    app = typer.Typer()
    app.command()(level)
    for arguments, code, text in [([], 0, "2"), (["-l", "3"], 0, "3"), (["--level=10"], 2, "9")]:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == code
        assert text in result.output


def test_a_field_that_is_no_flag_is_no_option() -> None:
    assert "No such option" in called("--inner", "x", code=2)


def test_bounds_are_those_of_the_field() -> None:
    assert "--node-pods" in called("--node-pods", "0", code=2)


def test_an_invalid_setting_is_a_usage_error_that_names_the_option() -> None:
    assert "error: --every: " in called("--every", "11", code=2)
