"""Another configuration is taken over as a whole, or refused with all its mistakes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import pytest

from podsched.app.reconfiguring import Reconfiguring
from podsched.config.load import SchedulerConfiguration, load_config
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.registry import factories
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ConfigMetrics
from podsched.v1.scheduling_pb2 import ConfigOutcome, Question, ReplicaState

NOW = {"leaderElection": {"leaseDuration": "30s"}, "profiles": [{"schedulerName": "one"}]}


class World:
    """A replica of the configuration NOW, without anything that would follow it."""

    def __init__(self) -> None:
        self.applied: list[SchedulerConfiguration] = []
        self.applying, self.may_apply = asyncio.Event(), asyncio.Event()
        self.may_apply.set()
        self.metrics = ConfigMetrics(MetricRegistry())
        self.reconfiguring = Reconfiguring(
            load_config(NOW),
            self._apply,
            None,
            lambda: ReplicaState(identity="scheduler-0_1", leading=True),
            self.metrics,
        )

    async def _apply(self, config: SchedulerConfiguration) -> None:
        self.applied.append(config)
        self.applying.set()
        await self.may_apply.wait()

    async def ask(self, text: str, *, validate_only: bool = False) -> ConfigOutcome:
        question = Question()
        question.apply_config.scheduler_configuration = text
        question.apply_config.validate_only = validate_only
        async with aclosing(self.reconfiguring.answer(question)) as answers:
            return (await anext(answers)).config

    async def ask_and_leave(self, text: str) -> None:
        """Ask for a configuration, and leave while it is being applied; ``may_apply`` ends that."""
        self.may_apply.clear()
        asking = asyncio.create_task(self.ask(text))
        await self.applying.wait()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    def counted(self, result: str) -> float:
        return self.metrics.reloads.labels(result).value


async def test_a_valid_configuration_is_applied_and_what_cannot_change_stays() -> None:
    world = World()
    outcome = await world.ask("profiles: [{schedulerName: two}]")
    assert (outcome.applied, list(outcome.profiles), list(outcome.errors)) == (True, ["two"], [])
    assert (outcome.replica, outcome.leading) == ("scheduler-0_1", True)
    (config,) = world.applied
    assert config.leader_election.lease_duration == 30.0
    assert world.reconfiguring.config is config
    assert world.counted("applied") == 1


async def test_every_mistake_is_told_with_its_path_and_nothing_changes() -> None:
    world = World()
    text = "profiles: [{schedulerName: two, percentageOfNodesToScore: 101}]\nparalelism: 3"
    outcome = await world.ask(text)
    assert sorted(error.partition(":")[0] for error in outcome.errors) == [
        "paralelism",
        "profiles[0].percentageOfNodesToScore",
    ]
    assert not outcome.applied
    assert not world.applied
    assert world.reconfiguring.config.profiles[0].scheduler_name == "one"
    assert world.counted("refused") == 1


async def test_a_file_whose_name_no_file_can_have_is_a_mistake() -> None:
    world = World()
    text = """
extenders:
- urlPrefix: https://extender
  filterVerb: filter
  tlsConfig: {caFile: "a\\0b"}
"""
    (error,) = (await world.ask(text)).errors
    assert error.startswith("extenders[0].tlsConfig.caFile: Invalid value: ")
    assert error.endswith(": embedded null byte")


async def test_what_cannot_change_at_run_time_is_named() -> None:
    world = World()
    outcome = await world.ask(
        "leaderElection: {leaseDuration: 20s, resourceName: other}\nenableProfiling: true"
    )
    assert list(outcome.errors) == [
        "leaderElection.leaseDuration: Forbidden: cannot change while the scheduler runs "
        "(the replicas race for this lock with these times): restart it",
        "leaderElection.resourceName: Forbidden: cannot change while the scheduler runs "
        "(the replicas race for this lock with these times): restart it",
        "enableProfiling: Forbidden: cannot change while the scheduler runs "
        "(the paths of the health server are fixed): restart it",
    ]


async def test_validation_alone_changes_and_counts_nothing() -> None:
    world = World()
    outcome = await world.ask("profiles: [{schedulerName: two}]", validate_only=True)
    assert (outcome.applied, list(outcome.profiles)) == (False, ["two"])
    assert not world.applied
    assert world.counted("applied") == world.counted("refused") == 0


async def test_unknown_plugins_are_a_mistake_too() -> None:
    world = World()
    outcome = await world.ask("profiles: [{plugins: {score: {enabled: [{name: Nobodys}]}}}]")
    assert len(outcome.errors) == 1
    assert "Nobodys" in outcome.errors[0]
    assert not world.applied


async def test_a_configuration_that_takes_effect_is_the_one_shown_though_its_caller_has_gone() -> (
    None
):
    world = World()
    await world.ask_and_leave("profiles: [{schedulerName: two}]")
    world.may_apply.set()
    await world.ask("", validate_only=True)
    assert world.reconfiguring.config is world.applied[0]
    assert world.counted("applied") == 1


async def test_a_configuration_waits_for_the_one_before_it_though_its_caller_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(checked: Any, read: Any) -> Any:
        return checked(read)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    world = World()
    await world.ask_and_leave("profiles: [{schedulerName: two}]")
    second = asyncio.create_task(world.ask("profiles: [{schedulerName: three}]"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(world.applied) == 1
    world.may_apply.set()
    await second
    assert len(world.applied) == 2
    assert world.reconfiguring.config is world.applied[-1]


class Broken:
    """A plugin that can be made, and does not know its events."""

    name = "Broken"

    def __init__(self, args: object, handle: object) -> None: ...

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        raise KeyError("a bug")


async def test_a_plugin_with_which_no_state_can_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {**factories(), Broken.name: Broken}
    monkeypatch.setattr("podsched.app.reconfiguring.factories", lambda: known)
    world = World()
    plugins = {"preEnqueue": {"enabled": [{"name": Broken.name}]}}
    outcome = await world.ask(json.dumps({"profiles": [{"plugins": plugins}]}))
    assert list(outcome.errors) == ["no scheduling state can be built: KeyError('a bug')"]
    assert world.applied == []
