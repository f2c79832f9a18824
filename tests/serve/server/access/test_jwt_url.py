"""Keys of an issuer at a URL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from podsched.lib.network import free_port
from podsched.serve.server.access import jwt
from podsched.serve.server.access.identity import TokenRejected
from podsched.serve.server.access.jwt import JwksError, JwtVerifier, fetch
from podsched.serve.server.access.settings import JwtSettings
from support.eventually import eventually
from support.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.integration


class Site:
    """Answers with the keys of some issuers, or with what stands in their place."""

    def __init__(self) -> None:
        self.answer: web.Response | Issuer = web.Response(status=500)
        self.asked = 0

    async def answer_to(self, _: web.Request) -> web.StreamResponse:
        self.asked += 1
        if isinstance(self.answer, Issuer):
            return web.json_response({"keys": [self.answer.jwk()]})
        return self.answer


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/keys", site.answer_to)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/keys"
    finally:
        await runner.cleanup()


async def test_keys_are_asked_for_again_when_a_token_names_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jwt, "_LEAST_SECONDS", 0.05)
    old, new, site = Issuer("k1"), Issuer("k2"), Site()
    async with serving(site) as url:
        tokens = JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks=url))
        following = asyncio.create_task(tokens.run())
        await eventually("a first answer", lambda: site.asked)
        site.answer = old  # an error is not the end of it

        def accepted(issuer: Issuer) -> bool:
            try:
                return tokens.identity_of(issuer.token()).user == "alice"
            except TokenRejected:
                return False

        await eventually("the first key", lambda: accepted(old))
        site.answer = new
        await eventually("the second key", lambda: accepted(new))
        assert not accepted(old)
        following.cancel()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (web.Response(status=404), "answers 404"),
        (web.Response(status=307, headers={"Location": "http://elsewhere.example"}), "answers 307"),
        (web.Response(body=b"x" * (2 << 20)), "larger than"),
    ],
)
async def test_a_site_that_answers_anything_else_is_not_followed(
    answer: web.Response, says: str
) -> None:
    site = Site()
    site.answer = answer
    async with serving(site) as url:
        with pytest.raises(JwksError, match=says):
            await fetch(url)


async def test_a_site_that_is_not_there_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}/keys"
    with pytest.raises(JwksError, match=url):
        await fetch(url)
