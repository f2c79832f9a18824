"""The columns say what a plain reading of the rules, node by node, says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support import plain_rules
from support.engine_world import World
from support.evaluations import seen
from support.examples import examples


@examples(60)
@given(st.integers(0, 10**6))
def test_verdicts_and_totals_are_those_of_the_plain_rules(seed: int) -> None:
    world = World(seed, strategy={"type": "LeastAllocated"})
    for _ in range(40):
        world.mutate()
    for nominee in world.nominees:
        world.cluster.nominator.delete(nominee.uid)
    columns = world.cluster.nodes
    rows = [row for row, alive in enumerate(columns.alive) if alive]
    nodes = {columns.names[row]: columns.node(row) for row in rows}
    there = {columns.names[row]: [p.pod for p in columns.pods(row).values()] for row in rows}
    for template in range(4):
        pending = world.pending(template)
        _, statuses, totals = seen(world.evaluation(pending), pending)
        verdicts = {n: plain_rules.verdict(pending.pod, nodes[n], there[n]) for n in nodes}
        assert {n: (s.plugin, s.reasons) for n, s in statuses.items()} == verdicts
        feasible = {
            n: (nodes[n], there[n]) for n, said in verdicts.items() if said == plain_rules.PASSES
        }
        assert totals == plain_rules.totals(pending.pod, feasible, list(nodes.values()))
