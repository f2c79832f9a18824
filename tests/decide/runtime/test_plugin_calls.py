"""Exceptions of plugins."""

from __future__ import annotations

import io

import pytest

from podsched.decide.runtime import plugin_calls
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.telemetry.log_output import configure_logging


def fails(reason: str) -> None:
    raise ValueError(reason)


def fails_elsewhere() -> None:
    raise ValueError("elsewhere")


def test_the_traceback_of_a_bug_is_logged_once_and_of_another_one_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = io.StringIO()
    configure_logging("text", "info", out)
    monkeypatch.setattr(plugin_calls, "_logged", set())
    for reason in ("first", "second"):
        with pytest.raises(PluginFailure, match=f'running "Mine" plugin: {reason}'):
            guarded("Mine", 'running "{}" plugin', fails, reason)
    assert out.getvalue().count("Traceback") == 1
    assert "in fails" in out.getvalue()
    with pytest.raises(PluginFailure):
        guarded("Mine", 'running "{}" plugin', fails_elsewhere)
    assert out.getvalue().count("Traceback") == 2
