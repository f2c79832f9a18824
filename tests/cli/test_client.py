"""Commands as clients of an API server, as far as they need none."""

from __future__ import annotations

import pytest

from podsched.cli.client import for_each
from podsched.serve.client.api_client import ApiClient


def test_a_command_that_has_nothing_to_act_on_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    async def none(_: ApiClient) -> list[str]:
        return []

    async def act(_: ApiClient, name: str) -> None:
        raise AssertionError(name)

    for_each("127.0.0.1:1", none, act)
    assert capsys.readouterr().err == "No resources found.\n"
