"""Call extenders for a pod, with kube-scheduler's rules.

Filter and preempt calls are made one after another, and each extender gets the nodes that remain
after the previous one. Prioritize calls are made concurrently. Ignorable extenders come last, and
if one fails, the result is as if it had not been called. A pod concerns an extender if it requests
or limits a managed resource, or if the extender has no managed resources.

Source: HTTPExtender, findNodesThatPassExtenders, prioritizeNodes and callExtenders of
kube-scheduler v1.36. Non-goals: the wire (``wire``, ``http``), rows and evaluations
(``placement``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from podsched.config.errors import ConfigError, FieldError
from podsched.config.extenders import Extender, redacted
from podsched.decide.extenders import wire
from podsched.decide.extenders.http import HttpTransport
from podsched.decide.extenders.wire import ExtenderError, FilterAnswer, MetaVictims, NodeTexts
from podsched.framework.plugin import MAX_NODE_SCORE, Victims
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status
from podsched.telemetry.logs import get_logger
from podsched.v1 import objects_pb2 as v1

_log = get_logger("extenders")

#: Returns the pods on a node by uid; None if there is no such node.
PodsOn = Callable[[str], Mapping[str, PodInfo] | None]


class Transport(Protocol):
    """Sends calls to one extender."""

    async def send(self, verb: str, body: bytes) -> bytes:
        """Return the answer to a call. Raises ExtenderError."""

    async def close(self) -> None: ...


class ExtenderClient:
    """Calls one extender. Failed calls raise ExtenderError."""

    def __init__(self, config: Extender, transport: Transport, texts: NodeTexts) -> None:
        self.config = config
        self.name = redacted(config.url_prefix)
        self._transport = transport
        self._texts = texts
        self._managed = frozenset(resource.name for resource in config.managed_resources)

    def is_interested(self, spec: v1.PodSpec) -> bool:
        """Whether a pod concerns this extender."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(amounts)
            for container in (*spec.containers, *spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    async def filter(self, pod: PodInfo, nodes: Mapping[str, v1.Node]) -> FilterAnswer:
        """Call the filter verb; return the nodes that remain."""
        by_name = self.config.node_cache_capable
        body = await self._transport.send(self.config.filter_verb, self._args(pod, nodes))
        answer = wire.read_filter_result(body, by_name=by_name)
        unknown = next((name for name in answer.passed if name not in nodes), None)
        if unknown is not None:
            raise ExtenderError(
                f'extender "{self.name}" claims a filtered node "{unknown}" which is not found in '
                "the input node list"
            )
        return answer

    async def prioritize(self, pod: PodInfo, nodes: Mapping[str, v1.Node]) -> dict[str, int]:
        """Call the prioritize verb; return weighted scores of 0..100 by node name."""
        body = await self._transport.send(self.config.prioritize_verb, self._args(pod, nodes))
        # Extenders score from 0 to 10, plugins from 0 to 100.
        scale = self.config.weight * (MAX_NODE_SCORE // wire.MAX_EXTENDER_PRIORITY)
        scores: Counter[str] = Counter()
        for name, score in wire.read_priorities(body):
            scores[name] += score * scale
        return scores

    async def preempt(
        self, pod: PodInfo, victims: Mapping[str, Victims], pods_on: PodsOn
    ) -> dict[str, Victims]:
        """Call the preempt verb; return the remaining candidates by node name.

        The extender may have changed a candidate's victims, or removed all of them.
        """
        by_uid = self.config.node_cache_capable
        args = wire.preemption_args(pod.pod, victims, by_uid=by_uid)
        body = await self._transport.send(self.config.preempt_verb, args)
        return {
            name: self._victims(name, meta_victims, victims.get(name), pods_on)
            for name, meta_victims in wire.read_preemption_result(body).items()
        }

    def _victims(
        self, name: str, meta_victims: MetaVictims, proposed: Victims | None, pods_on: PodsOn
    ) -> Victims:
        there = pods_on(name)
        if there is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        # A proposed victim may have been deleted during the call.
        known = {pod.uid: pod for pod in proposed.pods} if proposed else {}
        found = []
        for uid in meta_victims.uids:
            pod = known.get(uid) or there.get(uid)
            if pod is None:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: {uid}) on node: {name}, "
                    "but the pod is not found on that node"
                )
            found.append(pod)
        return Victims(tuple(found), meta_victims.num_pdb_violations)

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Let the extender bind the pod; it calls the API server itself."""
        args = wire.binding_args(pod, node_name)
        wire.read_binding_result(await self._transport.send(self.config.bind_verb, args))

    def _args(self, pod: PodInfo, nodes: Mapping[str, v1.Node]) -> bytes:
        if self.config.node_cache_capable:
            return wire.extender_args(pod.pod, None, list(nodes))
        return wire.extender_args(pod.pod, self._texts.of(list(nodes.values())), None)

    async def close(self) -> None:
        await self._transport.close()


@dataclass(slots=True)
class Filtered:
    """The nodes that remain, and the statuses of the others.

    The codes are Unschedulable or UnschedulableAndUnresolvable.
    """

    passed: list[str]
    rejected: dict[str, Status] = field(default_factory=dict)


class Extenders:
    """All extenders of a configuration, ignorable ones last."""

    def __init__(self, clients: Iterable[ExtenderClient]) -> None:
        self._clients = sorted(clients, key=lambda client: client.config.ignorable)

    def deciding(self, spec: v1.PodSpec) -> list[ExtenderClient]:
        """Return the extenders that take part in choosing a node for pods of this spec."""
        return [
            client
            for client in self._clients
            if (
                client.config.filter_verb
                or client.config.prioritize_verb
                or client.config.preempt_verb
            )
            and client.is_interested(spec)
        ]

    def binders(self, spec: v1.PodSpec) -> list[ExtenderClient]:
        """Return the extenders that bind pods of this spec."""
        # At most one, because a configuration has at most one extender that binds.
        return [c for c in self._clients if c.config.bind_verb and c.is_interested(spec)]

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.close()


def make_extenders(configs: Sequence[Extender]) -> Extenders | None:
    """Create the extenders of a configuration without calling them; None if it has none.

    Raises ConfigError with the unusable TLS files of all extenders.
    """
    if not configs:
        return None
    texts = NodeTexts()
    clients: list[ExtenderClient] = []
    found: list[FieldError] = []
    for at, config in enumerate(configs):
        try:
            clients.append(ExtenderClient(config, HttpTransport(config, f"extenders[{at}]"), texts))
        except ConfigError as error:
            found += error.errors
    if found:
        raise ConfigError(found)
    return Extenders(clients)


# ------------------------------------------------------------------ one after another


async def run_filters(
    clients: Sequence[ExtenderClient], pod: PodInfo, nodes: Mapping[str, v1.Node]
) -> Filtered:
    """Return the nodes that all extenders keep, and the rejections. Raises ExtenderError."""
    result = Filtered(list(nodes))
    for client in clients:
        if not client.config.filter_verb:
            continue
        if not result.passed:
            break
        try:
            answer = await client.filter(pod, {name: nodes[name] for name in result.passed})
        except ExtenderError as error:
            _ignore_or_raise(client, pod, error)
            continue
        left = set(answer.passed)
        for name in result.passed:
            if name not in left:
                result.rejected[name] = _rejection(name, answer)
        # The extender's order is kept, and a node that it names twice counts once.
        result.passed = list(dict.fromkeys(answer.passed))
    return result


def _rejection(name: str, answer: FilterAnswer) -> Status:
    if name in answer.unresolvable:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (answer.unresolvable[name],))
    if name in answer.failed:
        return Status(Code.UNSCHEDULABLE, (answer.failed[name],))
    # As kube-scheduler does for a node that the extender did not mention.
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


async def run_prioritize(
    clients: Sequence[ExtenderClient],
    pod: PodInfo,
    nodes: Mapping[str, v1.Node],
    running: Callable[[int], None],
) -> Counter[str]:
    """Return the sums of the extenders' scores by node name; a failed extender adds none.

    ``running`` is called with 1 when a call begins, and with -1 when it ends.
    """

    async def ask(client: ExtenderClient) -> dict[str, int]:
        running(1)
        try:
            return await client.prioritize(pod, nodes)
        except ExtenderError as error:
            _log.info(
                "An extender gave no scores", extender=client.name, pod=pod.key, error=str(error)
            )
            return {}
        finally:
            running(-1)

    asked = [client for client in clients if client.config.prioritize_verb]
    total: Counter[str] = Counter()
    for scores in await asyncio.gather(*(ask(client) for client in asked)):
        total.update(scores)
    return total


async def run_preempt(
    clients: Sequence[ExtenderClient], pod: PodInfo, victims: Mapping[str, Victims], pods_on: PodsOn
) -> dict[str, Victims]:
    """Return the candidates for preemption that all extenders keep. Raises ExtenderError."""
    left = dict(victims)
    for client in clients:
        if not client.config.preempt_verb:
            continue
        if not left:
            break
        try:
            answer = await client.preempt(pod, left, pods_on)
        except ExtenderError as error:
            _ignore_or_raise(client, pod, error)
            continue
        # As in kube-scheduler's ``callExtenders``: a candidate without victims is an error, and is
        # only dropped if the extender is ignorable.
        without = [name for name, here in answer.items() if not here.pods]
        if without and not client.config.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{without[0]}"')
        left = {name: here for name, here in answer.items() if here.pods}
    return left


def _ignore_or_raise(client: ExtenderClient, pod: PodInfo, error: ExtenderError) -> None:
    if not client.config.ignorable:
        raise error
    _log.info(
        "Skipped an ignorable extender that failed",
        extender=client.name,
        pod=pod.key,
        error=str(error),
    )
