"""The Python programs of the documents run as they stand, on an API server and a scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import podsched
from podsched import AlreadyBound, ApiClient, ClientError
from podsched.api.objects import Node
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import Binding
from support.api_servers import start_api_server

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:7443"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    pytest.param(program, id=f"{document.stem}-{number}")
    for document in DOCUMENTS
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(), re.S))
]


async def bind_all(client: ApiClient) -> None:
    """Bind each pod to the one node."""
    async for change in client.watch(["pods"]):
        meta = change.object.metadata
        with contextlib.suppress(AlreadyBound):
            await client.bind(Binding(namespace=meta.namespace, name=meta.name, node_name="node"))


@asynccontextmanager
async def scheduling() -> AsyncIterator[ApiClient]:
    """A client of an API server whose pods are bound."""
    store = MemoryStore()
    server = await start_api_server(ServerSettings(), store)
    async with ApiClient(server.address) as client:
        node = Node()
        node.metadata.name = "node"
        await client.create(node)
        binding = asyncio.create_task(bind_all(client))
        yield client
        binding.cancel()
        await asyncio.gather(binding, return_exceptions=True)
    await server.stop(0)
    await store.close()


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_of_the_documents_runs(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ADDRESS in program
    async with scheduling() as client:
        code = compile(program.replace(ADDRESS, client.channels.endpoint), "program", "exec")
        await asyncio.to_thread(exec, code, {"__name__": "program"})
        assert (await client.list("Pod")).items
        await asyncio.to_thread(exec, code, {"__name__": "program"})
    assert "already exists" in capsys.readouterr().out or "AlreadyExists:\n" in program


def test_readme_and_the_page_about_python_have_programs() -> None:
    assert [parameter.id for parameter in PROGRAMS] == ["README-0", "python-0", "python-1"]


def test_the_page_about_python_says_what_to_do_after_each_error() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    errors = [
        name
        for name in podsched.__all__
        if isinstance(found := getattr(podsched, name), type) and issubclass(found, ClientError)
    ]
    assert [name for name in errors if f"`{name}`" not in page] == []
