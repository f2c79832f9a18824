"""Lists of one kind, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.serve.client.undecodable import Identity, log_undecodable
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.objects import UnreadableObjectError, read_object
from podsched.serve.kube.paths import collection

#: client-go's page size.
_PAGE = "500"
#: Objects decoded before yielding to other tasks: about 5 ms.
_TURN = 50


async def pages(
    http: KubeHttp,
    path: str,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the pages of a list, all at one resourceVersion.

    Raises ClientError, Compacted if paging took too long.
    """
    # Without a resourceVersion, so that the list has all writes made before; with client-go's "0"
    # the API server may answer from a cache that lags.
    asked = {"limit": _PAGE, **(params or {})}
    while True:
        page = await http.request("GET", path, params=asked, headers=headers)
        yield page
        if not (token := (page.get("metadata") or {}).get("continue")):
            return
        asked["continue"] = token


async def list_all(http: KubeHttp, kind: Kind) -> list[AnyObject]:
    """Return all objects of a kind; undecodable ones are logged and left out.

    Raises ClientError.
    """
    found: list[AnyObject] = []
    async for page in pages(http, collection(kind)):
        for number, item in enumerate(page.get("items") or (), 1):
            try:
                found.append(read_object(kind, item))
            except UnreadableObjectError:
                metadata = item.get("metadata") or {}
                log_undecodable(Identity(kind.name, str(metadata.get("name"))))
            if not number % _TURN:
                await asyncio.sleep(0)
    return found
