"""Finds the kubelets to which requests are passed on, and reads their answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, cast

import aiohttp

from podsched.api.hollow_nodes import HOLLOW_TEXT, is_hollow
from podsched.api.kinds import KINDS
from podsched.api.objects import Node, Pod
from podsched.api.reasons import StatusCode
from podsched.serve.server.errors import ApiError
from podsched.serve.server.kubelets.addresses import Endpoint
from podsched.serve.server.kubelets.client import KubeletClient, KubeletError
from podsched.serve.server.kubelets.forwarding import PodPort
from podsched.serve.server.rest.failures import RestError, bad_request, unavailable
from podsched.serve.server.storage import ObjectStorage

#: Seconds that an answer may last, as a log that is followed.
LONGEST_ANSWER: Final = 24 * 3600.0


class KubeletLookup:
    """Finds kubelets by their nodes or pods. Methods raise ApiError, KubeletError."""

    def __init__(self, storage: ObjectStorage, kubelets: KubeletClient) -> None:
        self._storage = storage
        self._kubelets = kubelets

    async def pod(self, namespace: str, name: str) -> Pod:
        """Return a pod. The right to its subresource is enough."""
        return cast(Pod, await self._storage.message(KINDS["Pod"], namespace, name))

    async def node(self, name: str) -> Node:
        """Return a node. The right to its subresource, or to that of a pod, is enough."""
        return cast(Node, await self._storage.message(KINDS["Node"], "", name))

    async def of_pod(self, pod: Pod) -> Endpoint:
        """Return where the kubelet of a pod's node is; an error if nothing runs on the node."""
        name, node_name = pod.metadata.name, pod.spec.node_name
        if not node_name:
            raise bad_request(f"pod {name} does not have a host assigned")
        node = await self.node(node_name)
        if is_hollow(node):
            where = f"pod {name} is on node {node_name}, which is a {HOLLOW_TEXT}"
            raise bad_request(f"{where}, so it has no logs and no processes")
        return await self._kubelets.endpoint(node)

    async def of_node(self, node: Node) -> Endpoint:
        """Return where a node's kubelet is; an error if it has none."""
        if is_hollow(node):
            raise bad_request(f"node {node.metadata.name} is a {HOLLOW_TEXT}, so it has no kubelet")
        return await self._kubelets.endpoint(node)


def failed(error: KubeletError) -> ApiError:
    """Return the answer for a failure at a kubelet."""
    message = str(error)
    if error.status == 400:
        return bad_request(message)
    if error.status == 404:
        return RestError(404, "NotFound", message, code=StatusCode.NOT_FOUND)
    if error.status:
        return RestError(500, "InternalError", message, code=StatusCode.INTERNAL)
    return unavailable(message)


async def pieces_of(
    where: Endpoint | PodPort, response: aiohttp.ClientResponse
) -> AsyncGenerator[bytes, None]:
    """Yield the body of an answer as it comes. Raises ApiError if it breaks off."""
    try:
        # The first, empty piece releases the call's seat before the kubelet has sent anything.
        yield b""
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise unavailable(f"{where}: the answer broke off: {error}") from None
