"""NodeAffinityPriority on a case worked by hand: 10 * sum / highest sum."""

from __future__ import annotations

from podsched.legacy.rescaled_priorities import NodeAffinityPriority
from support.engine_world import node, pod
from support.plugin_world import cluster, made, scored


def test_the_highest_sum_of_weights_is_worth_ten_points() -> None:
    def term(weight: int, key: str) -> dict[str, object]:
        expressions = [{"key": key, "operator": "Exists"}]
        return {"weight": weight, "preference": {"matchExpressions": expressions}}

    preferred = [term(4, "ssd"), term(3, "fast")]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    pending = pod("p", {"affinity": {"nodeAffinity": {key: preferred}}})
    both = node("both", labels={"ssd": "", "fast": ""})
    state = cluster(both, node("ssd", labels={"ssd": ""}), node("none"))
    found = scored(made(NodeAffinityPriority), pending, state)
    assert found == {"both": 100, "ssd": 50, "none": 0}, "10 * 4 / 7 = 5.7"
