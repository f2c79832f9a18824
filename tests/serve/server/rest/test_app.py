"""Requests over HTTP, without sockets."""

from __future__ import annotations

from types import TracebackType

import pytest

from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest import app
from support.kube_client import KubeClient

pytestmark = pytest.mark.looptime


async def test_a_refused_body_is_let_go_before_the_client_reads_the_answer(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[TracebackType | None] = []
    fail = app._Exchange.fail

    async def observed(exchange: app._Exchange, error: ApiError) -> None:
        refused: BaseException | None = error
        while refused is not None:
            held.append(refused.__traceback__)
            refused = refused.__context__
        await fail(exchange, error)

    monkeypatch.setattr(app._Exchange, "fail", observed)
    path = "/api/v1/namespaces/default/configmaps"
    response = await kube.request("POST", path, b"{", {"content-type": "application/json"})
    assert response.status == 400
    assert held == [None, None]
