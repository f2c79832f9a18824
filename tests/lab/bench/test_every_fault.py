"""Figures of rounds of every single fault."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.lab.bench.every_fault import EveryFaultResult, FaultRound, _Rounds
from podsched.lab.bench.failover import FailoverLoad, Load
from podsched.lab.chaos.faults.kinds import KINDS, SINGLE, Kind
from podsched.serve.client.errors import AlreadyExists, ClientError, Unavailable


def result() -> EveryFaultResult:
    rounds = [FaultRound("kill-leader", "SIGKILL s", 0.1 * n, 0.2 * n) for n in range(1, 11)]
    rounds.append(FaultRound("hang-api", "SIGSTOP a", 0.5, 0.7))
    return EveryFaultResult(FailoverLoad(), rounds, {"kill-ray-head": "Ray does not run"})


def test_each_fault_has_its_distributions() -> None:
    assert list(result().faults) == ["kill-leader", "hang-api"]
    figures = result().figures("kill-leader")
    assert (figures["next_p50"], figures["longest_p50"], figures["longest_max"]) == (0.5, 1.0, 2.0)


def test_the_table_has_a_line_for_each_fault_and_names_what_was_hit_worst() -> None:
    lines = result().lines()
    assert max(map(len, lines)) <= 90
    assert any(line.split()[:2] == ["hang-api", "1"] for line in lines)
    assert "    2.000 s  kill-leader: SIGKILL s" in lines
    assert lines[-1] == "  kill-ray-head: Ray does not run"


def test_single_faults_leave_a_majority() -> None:
    assert set(KINDS) > SINGLE
    assert not SINGLE & {"etcd-majority-down", "all-apis-down", "etcd-full", "cut-clients"}


class Answering:
    """A client whose calls to create fail in this way, one after the other, and then succeed."""

    def __init__(self, *failures: ClientError) -> None:
        self._failures = list(failures)
        self.names: list[str] = []

    async def create(self, pod: Pod) -> Pod:
        self.names.append(pod.metadata.name)
        if self._failures:
            raise self._failures.pop(0)
        return pod


@pytest.mark.looptime
@pytest.mark.parametrize("last", [(), (AlreadyExists("it exists"),)])
async def test_a_pod_that_may_not_exist_is_created_again(last: tuple[ClientError, ...]) -> None:
    client: Any = Answering(Unavailable("no leader"), Unavailable("no leader"), *last)
    load = Load(client, rate=1.0)
    await load._create()
    assert client.names == ["load0-0"] * 3
    assert list(load.created) == ["default/load0-0"]


class Rounds(_Rounds):
    """Rounds without a system, of which the first does not end."""

    def __init__(self) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, nothing, nothing)
        self.begun = 0
        self.cleared = 0

    async def _round(self, name: str, kind: Kind) -> FaultRound:
        self.begun += 1
        if self.begun == 1:
            raise TimeoutError("the round did not end")
        return FaultRound(name, "", 0.1, 0.1)

    async def _delete_pods(self) -> None:
        self.cleared += 1

    def _count_actors(self) -> int:
        return 0


async def test_a_round_that_does_not_end_is_a_problem_and_the_next_ones_go_on() -> None:
    rounds = Rounds()
    kinds = {"kill-leader": KINDS["kill-leader"]}
    found = await rounds.run(FailoverLoad(times=3), kinds, lambda *_: None)
    assert found.problems == ["kill-leader: the round did not end"]
    assert (len(found.rounds), found.skipped, rounds.cleared) == (2, {}, 1)
