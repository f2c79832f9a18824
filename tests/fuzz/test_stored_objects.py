"""What the checks before storing accept, every reader decodes, uses and shows.

Without a server: the checks, and then the informer, the scheduler's cache, the agent and the
command line on their own.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from podsched.api.conditions import is_node_ready
from podsched.api.defaulting import default_object
from podsched.api.kinds import KINDS, WATCHED_KINDS, wrap
from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import AnyObject, Node, Pod
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate, validate_status
from podsched.cli.describe import description
from podsched.cli.printers import TablePrinter
from podsched.config.load import default_config
from podsched.registry import factories
from podsched.serve.agent import pods
from podsched.serve.agent.nodes import is_silent, repaired_conditions
from podsched.serve.client.informer import EventType, Mirror
from podsched.term.state import SchedulingState, build_state
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent
from support.fuzz_requests import SEEDS, Fuzzer

pytestmark = pytest.mark.fuzz

NOW = 1_800_000_000.0


def _accepted(item: AnyObject) -> bool:
    kind = item.DESCRIPTOR.name
    if default_object(item, now=NOW, uid="1-2-3", priority_classes=PriorityClasses(())):
        return False
    return not validate(kind, item) and not validate_status(kind, item, item)


def _decoded(item: AnyObject, mirror: Mirror, state: SchedulingState) -> AnyObject:
    """What informer and cache make of an object."""
    raw = wrap(item).SerializeToString()
    (event,) = mirror.take([RawWatchEvent(type=v1.ADDED, object=raw)])
    assert event.new == item and not mirror.undecodable
    if event.kind in WATCHED_KINDS:
        state.apply(event, 0.0)
        reason = state.set_aside.reason(event.kind, event.key)
        state.apply(event._replace(type=EventType.DELETED, old=event.new, new=None), 0.0)
        assert not reason
    return event.new


def _used_by_the_agent(item: AnyObject) -> None:
    if isinstance(item, Pod):
        for now in (0.0, NOW, 1e11):
            pods.step(item, now, now, 0.1)
    elif isinstance(item, Node):
        is_silent(item)
        is_node_ready(item.status)
        repaired_conditions(item, NOW, resumed=True)


def _shown(item: AnyObject) -> None:
    manifest = to_manifest(item)
    from_manifest(json.loads(json.dumps(manifest, allow_nan=False)))
    assert yaml.safe_load(yaml.safe_dump(manifest, sort_keys=False)) == manifest
    printer = TablePrinter(KINDS[item.DESCRIPTOR.name], namespaces=True, wide=True)
    "\n".join([*printer.lines([item], NOW), description(item, [], [], NOW)]).encode()


def test_every_reader_can_use_what_the_checks_accept(requests: int) -> None:
    accepted = 0
    state = build_state(default_config(), factories(), seed=1)

    @settings(
        max_examples=requests // 2,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**64))
    def check(seed: int) -> None:
        nonlocal accepted
        fuzzer = Fuzzer(seed)
        item: Any = fuzzer.object(random.Random(seed).choice(SEEDS))
        if not _accepted(item):
            return
        accepted += 1
        read = _decoded(item, Mirror(KINDS), state)
        _used_by_the_agent(read)
        _shown(read)

    check()
    assert accepted > requests / 20
