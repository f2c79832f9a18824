"""Which domains of a topology take pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import Taint
from podsched.queues.domains import Placed, place
from podsched.queues.topology import Topology, TopologyNode, TopologyPods, TopologyRequest
from support.examples import examples

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def node(rack: str, host: str, cpus: int, taint: str | None = None) -> TopologyNode:
    taints = () if taint is None else (Taint(key=taint, value="yes", effect="NoSchedule"),)
    free = {"cpu": 1000 * cpus, "pods": 100}
    return TopologyNode({RACK: rack, HOST: host, "rack": rack}, free, taints)


def topology(*nodes: TopologyNode) -> Topology:
    return Topology("default", (RACK, HOST), nodes)


def pods(count: int, request: TopologyRequest | None = None, **other: object) -> TopologyPods:
    request = request or TopologyRequest()
    return TopologyPods("main", count, {"cpu": 1000}, request, **other)  # type: ignore[arg-type]


def hosts(placed: Placed) -> dict[str, int]:
    return {values[-1]: count for values, count in placed.domains}


def of(nodes: Topology, *pod_sets: TopologyPods) -> dict[str, int]:
    return hosts(place(nodes, pod_sets)["main"])


RACKS = (node("r1", "a", 2), node("r1", "b", 2), node("r2", "c", 3), node("r2", "d", 3))


def test_a_required_level_gets_the_smallest_domain_that_is_large_enough() -> None:
    assert of(topology(*RACKS), pods(4, TopologyRequest(required=RACK))) == {"a": 2, "b": 2}
    assert of(topology(*RACKS), pods(5, TopologyRequest(required=RACK))) == {"c": 3, "d": 2}


def test_a_required_level_without_room_says_how_many_fit() -> None:
    placed = place(topology(*RACKS), [pods(7, TopologyRequest(required=RACK))])["main"]
    assert placed.reason == 'topology "default" allows to fit only 6 out of 7 pod(s)'


def test_a_preferred_level_is_given_up_level_by_level() -> None:
    assert of(topology(*RACKS), pods(3, TopologyRequest(preferred=HOST))) == {"c": 3}
    assert of(topology(*RACKS), pods(4, TopologyRequest(preferred=HOST))) == {"a": 2, "b": 2}
    assert sum(of(topology(*RACKS), pods(9, TopologyRequest(preferred=HOST))).values()) == 9


def test_without_constraints_pods_go_where_the_least_is_free() -> None:
    assert of(topology(*RACKS), pods(2)) == {"a": 2}
    assert of(topology(*RACKS), pods(5)) == {"a": 2, "b": 2, "c": 1}


def test_the_last_host_is_the_smallest_that_is_large_enough() -> None:
    nodes = topology(node("r1", "a", 3), node("r1", "b", 2), node("r1", "c", 1))
    assert of(nodes, pods(4, TopologyRequest(required=RACK))) == {"a": 3, "c": 1}


def test_slices_stay_together() -> None:
    request = TopologyRequest(required=RACK, slices=((HOST, 2),))
    assert of(topology(*RACKS), pods(4, request)) == {"a": 2, "b": 2}
    placed = place(topology(*RACKS), [pods(6, request)])["main"]
    assert placed.reason == 'topology "default" allows to fit only 2 out of 3 slice(s)'


def test_a_leader_is_in_the_domain_of_its_workers() -> None:
    request = TopologyRequest(required=RACK)
    leader = TopologyPods("leader", 1, {"cpu": 1000}, request, "group")
    placed = place(topology(*RACKS), [leader, pods(4, request, group="group")])
    assert hosts(placed["leader"]).keys() <= {"c", "d"}
    assert sum(hosts(placed["main"]).values()) == 4


def test_a_group_has_one_leader_at_most() -> None:
    leaders = TopologyPods("leader", 2, {"cpu": 1000}, group="group")
    placed = place(topology(*RACKS), [leaders, pods(4, group="group")])
    assert placed["main"].reason == "group group has more than workers and one leader"


def test_pod_sets_see_what_the_ones_before_them_took() -> None:
    first = TopologyPods("first", 2, {"cpu": 1000}, TopologyRequest(required=HOST))
    assert of(topology(*RACKS), first, pods(2, TopologyRequest(required=HOST))) == {"b": 2}


def test_a_message_lists_why_nodes_do_not_count() -> None:
    nodes = (node("r1", "a", 9, taint="spot"), node("r1", "b", 0), node("r2", "c", 9))
    wanted = pods(1, TopologyRequest(required=HOST), node_selector={"rack": "r1"})
    assert place(topology(*nodes), [wanted])["main"].reason == (
        'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 3; excluded: '
        'nodeSelector: 1, resource "cpu": 1, taint "spot=yes:NoSchedule": 1'
    )


def test_levels_that_are_not_there_are_named() -> None:
    reasons = [
        place(topology(*RACKS), [pods(1, request)])["main"].reason
        for request in (
            TopologyRequest(required="zone"),
            TopologyRequest(required=RACK, slices=(("zone", 2),)),
            TopologyRequest(required=HOST, slices=((RACK, 2),)),
            TopologyRequest(slices=((RACK, 0),)),
            TopologyRequest(slices=((RACK, 4), (HOST, 3))),
        )
    ]
    assert reasons == [
        "no requested topology level: zone",
        "no requested topology level for slices: zone",
        f"podset slice topology {RACK} is above the podset topology {HOST}",
        "slice topology requested, but slice size not provided",
        "additional slice layer size 3 must evenly divide parent layer size 4",
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=6), st.data())
@examples(400)
def test_pods_fit_where_they_are_placed_and_are_refused_only_without_room(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    """All of them, in domains that have room; at a required level in one domain, if one has it."""
    nodes = [node(f"r{rack}", f"h{index}", cpus) for index, (rack, cpus) in enumerate(sizes)]
    room = {f"h{index}": cpus for index, (_, cpus) in enumerate(sizes)}
    rack_of = {f"h{index}": f"r{rack}" for index, (rack, _) in enumerate(sizes)}
    level = data.draw(st.sampled_from((RACK, HOST)))
    request = data.draw(
        st.sampled_from(
            (TopologyRequest(required=level), TopologyRequest(preferred=level), TopologyRequest())
        )
    )
    count, size = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 2))
    if size == 2:
        count = 2 * count
        request = TopologyRequest(request.required, request.preferred, ((HOST, 2),))
    placed = place(topology(*nodes), [pods(count, request)])["main"]
    sliced = {host: cpus // size * size for host, cpus in room.items()}
    in_domain: dict[str, int] = {}
    for host, cpus in sliced.items():
        domain = host if request.required == HOST else rack_of[host]
        in_domain[domain] = in_domain.get(domain, 0) + cpus
    enough = max(in_domain.values(), default=0) if request.required else sum(sliced.values())
    if placed.reason:
        assert enough < count
        return
    assert enough >= count
    got = hosts(placed)
    assert sum(got.values()) == count
    assert all(taken <= sliced[host] and taken % size == 0 for host, taken in got.items())
    if request.required:
        domains = {host if request.required == HOST else rack_of[host] for host in got}
        assert len(domains) == 1
