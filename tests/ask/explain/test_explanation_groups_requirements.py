"""What plugins say that nodes miss is what they reject nodes for: no more, and no less."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.explain.fitting import fit
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import MeasuresRequirements
from podsched.plugins.pod_topology_spread.plugin import REASON_MISSING_LABEL
from support.engine_world import World
from support.examples import examples
from support.worlds import Evaluated


def check(world: World | Evaluated, pod: PodInfo) -> None:
    fitting = fit(world.runtime, world.cluster, pod)
    nodes, rows = world.cluster.columns, world.cluster.columns.node_table.live_rows
    if not fitting.pre.status.ok:
        return
    fork = nodes.fork(rows)
    for named in world.runtime.filter:
        plugin = named.plugin
        if not isinstance(plugin, MeasuresRequirements) or named.name in fitting.state.skip_filter:
            continue
        for columns, places in ((nodes, rows), (fork, np.arange(len(rows)))):
            verdicts = plugin.filter(fitting.state, pod, columns, places)
            missed = np.zeros(len(rows), dtype=np.bool_)
            for each in plugin.requirements(fitting.state, pod, columns, places):
                missed |= each.wanted > each.available
            for at in range(len(rows)):
                reasons = verdicts.status(at).reasons
                if REASON_MISSING_LABEL in reasons:
                    continue
                assert bool(missed[at]) == bool(reasons), (named.name, reasons)


@examples(30)
@given(seed=st.integers(0, 10_000), changes=st.integers(0, 40))
def test_a_node_is_rejected_where_it_misses_something(seed: int, changes: int) -> None:
    world = World(seed, nodes=8)
    for _ in range(changes):
        world.mutate()
    for template in range(4):
        check(world, world.pending(template))


@examples(30)
@given(seed=st.integers(0, 10_000))
def test_so_it_is_with_skews(seed: int) -> None:
    world = Evaluated(seed)
    check(world, world.world.info(world.world.random_pod()))
