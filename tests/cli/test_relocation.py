"""A pod is moved without being lost, whatever happens to any call on the way."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest

from podsched.api.objects import AnyObject, Pod, ReplicaSet
from podsched.api.resources import requests_in_units
from podsched.cli.relocation import LABEL, MANAGER, Mover, PodMove, Stopped, placeholder
from podsched.serve.client.errors import ClientError, DisruptionBudget, Invalid
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient, Fault, Inhabitants, replica_set
from support.engine_world import container, pod

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
WAY = PodMove("default", "web", "uid-web", "old", "new")
_TIMEOUT = 3.0


@dataclass
class Moved:
    """A pod on its way from ``old`` to ``new``, and what is said about it."""

    cluster: FakeCluster
    client: CommandClient
    inhabitants: Inhabitants
    told: list[str] = field(default_factory=list)
    ended: BaseException | None = None

    @property
    def said(self) -> str:
        return "\n".join([*self.told, str(self.ended or "")])

    async def move(self, *, force: bool = False) -> None:
        """Move the pod; afterwards everybody has time to react."""
        mover = Mover(self.client, _TIMEOUT, self.told.append, force=force)  # type: ignore[arg-type]
        async with self.inhabitants.at_work():
            task = asyncio.create_task(mover.move(WAY))
            await asyncio.wait({task}, timeout=60)
            while not task.done():  # Killed: no call is answered any more.
                task.cancel()
                await asyncio.sleep(0)
            try:
                task.result()
            except (Stopped, ClientError, asyncio.CancelledError) as error:
                self.ended = error
            await asyncio.sleep(2)

    def pods(self) -> dict[str, str]:
        """The nodes of the pods that are there and not terminating, without placeholders."""
        return {
            name: p.spec.node_name
            for name, p in self.all().items()
            if not name.startswith("hold-") and not p.metadata.HasField("deletion_timestamp")
        }

    def holders(self) -> list[str]:
        return [name for name in self.all() if name.startswith("hold-")]

    def all(self) -> dict[str, Pod]:
        found = self.cluster.objects("Pod")
        return {p.metadata.name: p for p in found if isinstance(p, Pod)}


def a_move(*, owned: bool, grace: int = 1) -> Moved:
    cluster = FakeCluster(now=lambda: asyncio.get_running_loop().time())
    spec = {"nodeName": "old", "terminationGracePeriodSeconds": grace}
    owners = [OWNER | {"controller": True}] if owned else []
    if owned:
        cluster.create(replica_set("web", "rs"))
    moving = pod("web", spec, ownerReferences=owners)
    moving.status.phase = "Running"
    cluster.create(moving)
    return Moved(cluster, CommandClient(cluster), Inhabitants(cluster))


@pytest.mark.looptime
@pytest.mark.parametrize("owned", [True, False])
async def test_a_pod_moves_to_its_new_node_and_nothing_is_left(owned: bool) -> None:
    moved = a_move(owned=owned)
    await moved.move()
    [(again, node)] = moved.pods().items()
    assert (again != "web", node, moved.holders(), moved.ended) == (True, "new", [], None)
    assert f"pod/web moved from old to new as {again}" in moved.said


@pytest.mark.looptime
async def test_a_copy_gets_the_planned_node_although_the_scheduler_is_at_once_at_work() -> None:
    class Quick(CommandClient):
        async def create(self, item: AnyObject, **how: bool) -> AnyObject:
            created = await super().create(item, **how)
            moved.inhabitants.settle()
            return created

    moved = a_move(owned=False)
    moved.client = Quick(moved.cluster)
    await moved.move()
    assert [*moved.pods().values()] == ["new"]


async def calls_of_a_move(*, owned: bool) -> list[str]:
    moved = a_move(owned=owned)
    await moved.move()
    return moved.client.calls


@pytest.mark.looptime
@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILLED])
async def test_whatever_becomes_of_any_call_no_pod_is_lost_and_what_is_left_is_said(
    owned: bool, fault: Fault
) -> None:
    calls = await calls_of_a_move(owned=owned)
    for number, call in enumerate(calls):
        moved = a_move(owned=owned)
        moved.client.faults[number] = fault
        await moved.move()
        context = f"{fault.name} at {number}, {call}: {moved.said}; {moved.client.calls}"
        pods = moved.pods()
        assert pods, f"the pod is lost: {context}"
        if not owned and len(pods) > 1:
            assert all(f"pod/{name}" in moved.said for name in pods), f"two pods: {context}"
        if fault is not Fault.UNAVAILABLE_FOR_GOOD:
            assert not moved.holders(), f"a placeholder is left: {context}"
            assert owned or len(pods) == 1 or "may have been evicted" in moved.said, context
        for name in moved.holders():
            assert f"pod/{name}" in moved.said, f"a placeholder is left in silence: {context}"


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("owned", "there"),
    [
        (
            True,
            [["pod"], ["pod", "placeholder"], ["placeholder", "replacement"], ["replacement"]],
        ),
        (
            False,
            [
                ["pod"],
                ["pod", "placeholder"],
                ["pod", "placeholder", "copy"],
                ["pod", "copy"],
                ["copy"],
            ],
        ),
    ],
)
async def test_what_a_killed_process_leaves_is_what_the_table_of_steps_says(
    owned: bool, there: list[list[str]]
) -> None:
    calls = await calls_of_a_move(owned=owned)
    seen: list[list[str]] = []
    for number in range(len(calls) + 1):
        moved = a_move(owned=owned)
        moved.client.faults[number] = Fault.KILLED
        await moved.move()
        second = "replacement" if owned else "copy"
        names = ["pod" if n == "web" else second for n in sorted(moved.pods())]
        left = [*names, *("placeholder" for _ in moved.holders())]
        left.sort(key=["pod", "placeholder", "copy", "replacement"].index)
        if left not in seen:
            seen.append(left)
        copies = [name for name in moved.pods() if name != "web" and not owned]
        assert all(f"pod/web is copied as {name}" in moved.said for name in copies)
    assert seen == there


@pytest.mark.looptime
async def test_a_copy_stays_when_the_evicted_pod_takes_longer_than_its_grace_period() -> None:
    moved = a_move(owned=False, grace=1)
    moved.inhabitants.stuck = True
    await moved.move()
    [(copy, node)] = moved.pods().items()
    assert node == "new"
    assert isinstance(moved.ended, Stopped)
    assert "pod/web was evicted and is still terminating on old" in moved.said
    assert f"pod/web was evicted: its copy pod/{copy} stays" in moved.said


@pytest.mark.looptime
@pytest.mark.parametrize("answered_after", [0.0, 1.2])
async def test_a_copy_goes_when_a_budget_does_not_permit_the_eviction(
    answered_after: float,
) -> None:
    """Also if a call is under way when the time for the eviction is over."""
    moved = a_move(owned=False)

    async def refuse(request: object) -> Pod:
        await asyncio.sleep(answered_after)
        raise DisruptionBudget("Cannot evict pod as it would violate the pod's disruption budget.")

    moved.client.evict = refuse  # type: ignore[method-assign]
    await moved.move()
    assert moved.pods() == {"web": "old"}
    assert "pod/web stays: Cannot evict pod" in moved.said


@pytest.mark.looptime
async def test_waiting_for_a_replacement_lists_a_namespace_once() -> None:
    moved = a_move(owned=True)
    moved.inhabitants.replaces = False
    await moved.move()
    assert "ReplicaSet/web has not replaced the evicted pod" in moved.said
    assert moved.client.calls.count("list Pod") == 1
    assert len(moved.client.calls) < 20, "who waits does not ask ten times a second"


@dataclass(frozen=True)
class Owner:
    """What the pod names as its controller, and what is stored under that name."""

    kind: str = "ReplicaSet"
    version: str = "apps/v1"
    stored: ReplicaSet | None = None


def owned_by(owner: Owner) -> Moved:
    moved = a_move(owned=False)
    moving = moved.all()["web"]
    moving.metadata.owner_references.add(
        api_version=owner.version, kind=owner.kind, name="web", uid="rs", controller=True
    )
    moved.cluster.update(moving)
    if owner.stored is not None:
        moved.cluster.create(owner.stored)
    moved.inhabitants.replaces = False
    return moved


NO_CONTROLLER = {
    "no controller has looked at it": Owner(stored=replica_set("web", "rs", controlled=False)),
    "it is another one": Owner(stored=replica_set("web", "another")),
    "it is gone": Owner(),
}


@pytest.mark.looptime
@pytest.mark.parametrize("owner", NO_CONTROLLER.values(), ids=NO_CONTROLLER)
async def test_a_pod_whose_owner_has_no_controller_stays_or_is_copied_with_force(
    owner: Owner,
) -> None:
    moved = owned_by(owner)
    await moved.move()
    assert moved.pods() == {"web": "old"}
    assert "pod/web belongs to ReplicaSet/web, which has no controller" in moved.said
    moved = owned_by(owner)
    await moved.move(force=True)
    [(copy, node)] = moved.pods().items()
    assert (copy != "web", node, moved.ended) == (True, "new", None)


@pytest.mark.looptime
@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "deleted"])
async def test_a_pod_that_goes_anyway_is_neither_moved_nor_copied(owned: bool, ended: bool) -> None:
    moved = a_move(owned=owned)
    moved.inhabitants.stuck = True
    going = moved.all()["web"]
    if ended:
        going.status.phase = "Succeeded"
    else:
        going.metadata.deletion_timestamp.GetCurrentTime()
    moved.cluster.update(going)
    await moved.move(force=True)
    assert str(moved.ended) == "pod/web has ended or is being deleted"
    assert moved.client.calls == ["get Pod web"]


@pytest.mark.looptime
async def test_an_owner_of_a_kind_that_is_kept_elsewhere_is_trusted() -> None:
    moved = owned_by(Owner(kind="Job", version="batch/v1"))
    moved.inhabitants.replaces = True
    await moved.move()
    assert (moved.ended, list(moved.pods().values())) == (None, ["new"])


def test_a_placeholder_takes_what_the_pod_takes_on_one_node_alone() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    spec = {
        "containers": [
            container({"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}, ports=[80]),
            container({"cpu": "250m", "hugepages-2Mi": "4Mi"}, image="side:1"),
        ],
        "priorityClassName": "urgent",
        "tolerations": [toleration],
        "nodeName": "old",
    }
    held = placeholder(pod("web", spec, labels={"app": "web"}), "new", 12.5)
    assert requests_in_units(held) == {
        "cpu": 1750,
        "memory": 1 << 30,
        "example.com/gpu": 2,
        "hugepages-2Mi": 4 << 20,
    }
    limits = held.spec.containers[0].resources.limits
    assert {*limits} == {"example.com/gpu", "hugepages-2Mi"}, "of all others a part may be used"
    assert dict(held.metadata.labels) == {LABEL: MANAGER}, "no service or budget selects it"
    assert held.spec.priority_class_name == "urgent"
    assert held.spec.tolerations[0].key == "gpu"
    assert not held.spec.node_name
    assert [port.host_port for port in held.spec.containers[0].ports] == [80]
    required = held.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    [term] = required.node_selector_terms
    assert term.match_fields[0].values == ["new"]
    assert held.spec.active_deadline_seconds == 13


def test_a_placeholder_runs_only_where_the_pod_itself_may_run() -> None:
    zones = [{"key": "zone", "operator": "In", "values": [zone]} for zone in ("1", "2")]
    terms = [{"matchExpressions": [zone]} for zone in zones]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    sidecar = container(ports=[80], image="side:1") | {"restartPolicy": "Always"}
    spec = {
        "containers": [container(ports=[81])],
        "initContainers": [sidecar],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": required},
    }
    held = placeholder(pod("web", spec), "new", 1.0).spec
    assert dict(held.node_selector) == {"disk": "ssd"}
    found = held.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert [
        (term.match_expressions[0].values[0], term.match_fields[0].values[0])
        for term in found.node_selector_terms
    ] == [("1", "new"), ("2", "new")]
    assert [port.host_port for port in held.containers[0].ports] == [80, 81]


@pytest.mark.parametrize(("node", "raises"), [("new", False), ("", True)])
async def test_only_a_pod_that_was_bound_meanwhile_need_not_be_nominated(
    node: str, raises: bool
) -> None:
    class Client:
        async def patch(self, *_: object) -> None:
            raise Invalid("status.nominatedNodeName: Forbidden")

        async def get(self, *_: object) -> Pod:
            return pod("web", {"nodeName": node})

    mover = Mover(Client(), _TIMEOUT, print)  # type: ignore[arg-type]
    with pytest.raises(Invalid) if raises else nullcontext():
        await mover.nominate("default", "web", "new")
