"""Cost against scale."""

from __future__ import annotations

from podsched.lab.bench.scale import BURST, ScalePoint, ScaleResult, _template


def point(sort: str, nodes: int, bound: int, cost: float) -> ScalePoint:
    return ScalePoint(sort, nodes, bound, 1000.0, {"scheduler-0": cost}, {"scheduler-0": 321.0})


def test_the_chart_has_a_line_for_each_sort_of_pods_and_for_nodes_and_bound_pods() -> None:
    points = [
        point(sort, nodes, bound, 100.0)
        for sort in BURST
        for nodes, bound in ((100, 0), (5000, 0), (5000, 30_000))
    ]
    chart = ScaleResult(points).chart()
    assert chart.count("<polyline") == 4
    for sort in BURST:
        assert f"{sort}, nodes" in chart and f"{sort}, bound pods" in chart


def test_the_report_has_a_line_for_each_point_within_80_columns() -> None:
    lines = ScaleResult([point("all different", 100_000, 300_000, 12_345.0)]).lines()
    assert "321" in lines[-1] and "12,345" in lines[-1]
    assert max(map(len, lines)) <= 80


def test_pods_that_differ_do_so_over_all_points() -> None:
    made = [_template("all different", at).at(index) for at in range(3) for index in range(300)]
    contents = {pod.SerializeToString(deterministic=True) for pod in made}
    assert len(contents) == 900
