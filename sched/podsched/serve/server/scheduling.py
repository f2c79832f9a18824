"""The service podsched.v1.Scheduling: checks rights, asks replicas, and filters their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from podsched.api.kinds import KINDS
from podsched.api.objects import copy_of
from podsched.api.validation.storable import validate_storable
from podsched.serve.client.question_stream import WORKER, WORKERS
from podsched.serve.server import errors
from podsched.serve.server.access.rights import Rights, rights
from podsched.serve.server.calls import bidirectional, unary
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.replicas import Replicas
from podsched.serve.server.requests import bounded
from podsched.serve.server.storage import ObjectStorage
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsRequest, DecisionsResponse
from podsched.v1.scheduling_pb2 import (
    Answer,
    ApplyConfigRequest,
    ApplyConfigResponse,
    Change,
    CheckpointRequest,
    ConfigOutcome,
    ExplainRequest,
    Explanation,
    PodReference,
    PodState,
    Question,
)

SCHEDULING: Final = "podsched.v1.Scheduling"
#: Max nodes in a request for individual verdicts.
MAX_NODES: Final = 100
#: Max decisions in an answer.
MAX_DECISIONS: Final = 1000
#: Replaces the name of a pod that the caller may not get.
HIDDEN: Final = "(hidden)"
#: Texts that may name pods: queues name single pods, and devices the claims and pods that use them.
_TEXTS: Final = frozenset({
    "QueueAdmission.sentence", "QueueAdmission.first", "QueueAdmission.victims",
    "Shortfall.what", "NodeParts.why_not",
})  # fmt: skip
#: How they do it, by namespace.
_LONE_POD: Final = re.compile(r"([a-z0-9-]+)/pod:([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
_USER: Final = re.compile(r"in use by claim ([a-z0-9-]+)/(?:(?!, in use by claim)[^;()])*")
_POD = KINDS["Pod"]
_NODE = KINDS["Node"]
_EXPLAINED = {"": _POD, "Pod": _POD, "PodGroup": KINDS["PodGroup"]}


class SchedulingService:
    """podsched.v1.Scheduling."""

    def __init__(
        self, replicas: Replicas, storage: ObjectStorage, worker: int = 0, workers: int = 1
    ) -> None:
        """worker: index of this process among the ``workers`` that share the addresses."""
        #: A replica keeps a stream to each worker, and reconnects until it has found all.
        self._worker_metadata = ((WORKER, str(worker)), (WORKERS, str(workers)))
        self._replicas = replicas
        self._storage = storage

    def handlers(self, pipeline: Pipeline) -> grpc.GenericRpcHandler:
        """Return the handlers to register with gRPC."""
        handlers = {
            "Explain": unary("Explain", bounded(ExplainRequest), self.explain, pipeline),
            "Decisions": unary("Decisions", bounded(DecisionsRequest), self.decisions, pipeline),
            "ApplyConfig": unary(
                "ApplyConfig", bounded(ApplyConfigRequest), self.apply_config, pipeline
            ),
            "Checkpoint": unary(
                "Checkpoint", bounded(CheckpointRequest), self.checkpoint, pipeline
            ),
            "Answer": bidirectional(
                "Answer", self._replicas.serve, pipeline, self._worker_metadata
            ),
        }
        return grpc.method_handlers_generic_handler(SCHEDULING, handlers)

    async def explain(self, request: ExplainRequest) -> bytes:
        """Explain why a pod or PodGroup is pending, or why a pod is on its node.

        The leader answers. If it has not recorded the decision about a bound pod, the other
        replicas are asked. Returns a serialized Explanation. Raises ApiError.
        """
        request.namespace = request.namespace or "default"
        if not request.name:
            raise errors.bad_request("name must be specified", "name")
        if len(request.nodes) > MAX_NODES:
            raise errors.bad_request(f"at most {MAX_NODES} nodes", "nodes")
        kind = _EXPLAINED.get(request.kind)
        if kind is None:
            raise errors.bad_request(f"{request.kind!r} is neither Pod nor PodGroup", "kind")
        caller_rights = rights()
        if kind is _POD:
            caller_rights.check("get", _POD, request.namespace, request.name, "explain")
        else:
            caller_rights.check("get", _POD, request.namespace, "", "explain")
            caller_rights.check("get", kind, request.namespace, request.name)
        # The replica may lag: it may not know the object yet, or still have a deleted one.
        question = Question(explain=request)
        try:
            stored = await self._storage.get(kind, f"{request.namespace}/{request.name}")
            question.revision = stored.revision
        except ApiError:
            # Groups that their pods' labels name have no object.
            if kind is _POD or not self._replicas.names():
                raise
        for name in dict.fromkeys(request.nodes):
            await self._storage.get(_NODE, name)
        found = (await self._replicas.ask_once(question, request.replica)).explanation
        if found.state == PodState.BOUND and not found.HasField("decision"):
            found = await self._from_deciding_replica(question) or found
        hide_pods(found, caller_rights)
        return found.SerializeToString()

    async def _from_deciding_replica(self, question: Question) -> Explanation | None:
        """Return the answer of a connected replica that has recorded the decision, or None."""
        names = [] if question.explain.replica else self._replicas.names()[1:]
        for name in names:
            found = await errors.awaited(self._replicas.ask_once(question, name))
            if isinstance(found, Answer) and found.explanation.HasField("decision"):
                return found.explanation
        return None

    async def decisions(self, request: DecisionsRequest) -> bytes:
        """Return the serialized latest decisions, of one replica or of all. Raises ApiError."""
        if request.name and not request.namespace:
            raise errors.bad_request("a name needs a namespace", "namespace")
        if not 0 <= request.limit <= MAX_DECISIONS:
            raise errors.bad_request(f"not between 0 and {MAX_DECISIONS}", "limit")
        if wrong := validate_storable(request):
            raise errors.bad_request(str(wrong[0]), wrong[0].path)
        rights().check("get", _POD, request.namespace, request.name, "explain")
        question = Question(decisions=request)
        if request.replica:
            answer = await self._replicas.ask_once(question, request.replica)
            return answer.decisions.SerializeToString()
        answers = [answer for _, answer in await self._replicas.ask_all(question)]
        found = [answer.decisions for answer in answers if isinstance(answer, Answer)]
        if not found:
            raise next(answer for answer in answers if isinstance(answer, ApiError))
        return _merged(found, request.limit or 100).SerializeToString()

    async def apply_config(self, request: ApplyConfigRequest) -> bytes:
        """Give all replicas a configuration, after all have found it valid. Raises ApiError."""
        rights().check("update", KINDS["Lease"], "kube-system", "", "configuration")
        trial = copy_of(request)
        trial.validate_only = True
        outcomes = await self._configure(trial)
        if not request.validate_only and not any(outcome.errors for outcome in outcomes):
            outcomes = await self._configure(request)
        return ApplyConfigResponse(replicas=outcomes).SerializeToString()

    async def _configure(self, request: ApplyConfigRequest) -> list[ConfigOutcome]:
        answers = await self._replicas.ask_all(Question(apply_config=request))
        return [
            ConfigOutcome(replica=name, errors=[str(answer)])
            if isinstance(answer, ApiError)
            else answer.config
            for name, answer in answers
        ]

    async def checkpoint(self, request: CheckpointRequest) -> bytes:
        """Return the leader's serialized checkpoint. Raises ApiError."""
        rights().check("get", _POD, "", "", "explain")
        answer = await self._replicas.ask_once(Question(checkpoint=request))
        return answer.checkpoint.SerializeToString()


def _merged(found: Sequence[DecisionsResponse], limit: int) -> DecisionsResponse:
    """Merge the latest decisions of several replicas, oldest first.

    Who asks for the next ones names the earliest end. So of the time for which one replica's answer
    was too large, no other's are shown.
    """

    def when(record: DecisionRecord) -> tuple[int, int]:
        at = record.ended_time if record.HasField("ended_time") else record.decided_time
        return at.seconds, at.nanos

    records = sorted((record for each in found for record in each.records), key=when)
    cut = max(
        (min(map(when, each.records)) for each in found if each.more and each.records),
        default=(0, 0),
    )
    records = [record for record in records if when(record) >= cut]
    more = len(records) > limit or any(each.more for each in found)
    dropped = sum(each.dropped for each in found)
    return DecisionsResponse(records=records[-limit:], dropped=dropped, more=more)


def hide_pods(message: Message, caller_rights: Rights) -> None:
    """Hide the names of pods in an answer that the caller may not get."""
    if caller_rights.everything:
        return
    for field, value in message.ListFields():
        if f"{message.DESCRIPTOR.name}.{field.name}" in _TEXTS:
            if field.is_repeated:
                value[:] = [_without_names(text, caller_rights) for text in value]
            else:
                setattr(message, field.name, _without_names(value, caller_rights))
            continue
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else (value,):
            if isinstance(each, PodReference):
                _hide(each, caller_rights)
            else:
                hide_pods(each, caller_rights)
            # The description of a change names the pods that it would delete.
            if isinstance(each, Change) and any(pod.name == HIDDEN for pod in each.pods):
                each.description = f"delete {len(each.pods)} of the pods, some hidden from you"


def _hide(pod: Any, caller_rights: Rights) -> None:
    if not caller_rights.permit("get", "", "pods", pod.namespace, pod.name):
        pod.namespace = pod.name = HIDDEN
        pod.uid = ""


def _without_names(text: str, caller_rights: Rights) -> str:
    def shown(found: re.Match[str], otherwise: str) -> str:
        permitted = caller_rights.permit("get", "", "pods", *found.groups())
        return found[0] if permitted else otherwise

    text = _LONE_POD.sub(lambda found: shown(found, HIDDEN), text)
    return _USER.sub(lambda found: shown(found, "in use"), text)
