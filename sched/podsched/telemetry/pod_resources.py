"""/metrics/resources: the requests and limits of every pod, as kube-scheduler counts them.

Only the leader has time series here, so that a sum over the replicas counts a pod once. Each pod
has several, so the text is made and sent in parts, and the event loop runs other tasks in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from aiohttp import web

from podsched.api import resources
from podsched.api.conditions import is_finished
from podsched.api.objects import Pod
from podsched.api.quantity import MAX_INT64, QuantityError
from podsched.telemetry.http_server import connection_of
from podsched.telemetry.instruments import go_float

#: Pods in a part, which takes some 5 ms.
_PART = 100
#: Seconds in which a client must read a part, or a few.
_UNREAD_SECONDS = 30.0
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SPEC_ALONE = resources.RequestOptions(use_status=False)
#: Name, help text, and how a pod's amounts are counted.
_METRICS: Sequence[tuple[str, str, Callable[[Pod], Mapping[str, Fraction]]]] = (
    (
        "kube_pod_resource_request",
        "[STABLE] What the scheduler and the node count as requested by a pod.",
        lambda pod: resources.pod_requests(pod, _SPEC_ALONE),
    ),
    ("kube_pod_resource_limit", "[STABLE] What the node limits a pod to.", resources.pod_limits),
)
#: Kubernetes' quantities end there; 1e400 has no float.
_LARGEST = Fraction(MAX_INT64)
_BYTES = (resources.MEMORY, "storage", resources.EPHEMERAL_STORAGE)


def pod_resources(
    pods: Callable[[], Sequence[Pod]], leading: Callable[[], bool]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler. ``pods``: all pods; ``leading``: whether this replica leads."""
    making = asyncio.Lock()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": _CONTENT_TYPE})
        await response.prepare(request)
        # aiohttp would send what is written as the answer to HEAD, too.
        has_text = leading() and request.method != "HEAD"
        parts = resource_lines(pods()) if has_text else iter(())
        while True:
            # One part in a round of the event loop, of however many answers: 200 clients held it up
            # for 0.2 s.
            async with making:
                part = next(parts, None)
                await asyncio.sleep(0)
            if part is None:
                break
            try:
                async with asyncio.timeout(_UNREAD_SECONDS):
                    await response.write(part.encode())
            except TimeoutError:
                # Others need the connection: probes of this process.
                connection_of(request).abort()
                return response
        await response.write_eof()
        return response

    return handle


def resource_lines(pods: Sequence[Pod]) -> Iterator[str]:
    """Yield the text of both metrics in parts; finished pods use nothing any more."""
    for name, text, amounts_of in _METRICS:
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
        for start in range(0, len(pods), _PART):
            lines = (
                line for pod in pods[start : start + _PART] for line in _lines(pod, amounts_of)
            )
            yield "".join(f"{name}{line}" for line in lines)


def _lines(pod: Pod, amounts_of: Callable[[Pod], Mapping[str, Fraction]]) -> Iterable[str]:
    spec = pod.spec
    if spec.node_name and is_finished(pod):
        return
    priority = str(spec.priority) if spec.HasField("priority") else ""
    own = (
        f'namespace="{pod.metadata.namespace}",pod="{pod.metadata.name}",node="{spec.node_name}",'
        f'scheduler="{_escaped(spec.scheduler_name)}",priority="{priority}"'
    )
    try:
        amounts = amounts_of(pod)
    except QuantityError:
        return  # the cache has set the pod aside, and said so
    for resource, amount in sorted(amounts.items()):
        if amount:
            labels = f'{own},resource="{resource}",unit="{_unit(resource)}"'
            yield f"{{{labels}}} {go_float(float(min(amount, _LARGEST)))}\n"


def _unit(resource: str) -> str:
    if resource == resources.CPU:
        return "cores"
    if resource in _BYTES or resource.startswith(resources.HUGE_PAGES_PREFIX):
        return "bytes"
    return "integer" if resource.startswith(resources.ATTACHABLE_VOLUMES_PREFIX) else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
