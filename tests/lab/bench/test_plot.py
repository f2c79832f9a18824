"""Charts are well-formed SVG that shows every series where its values are."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from podsched.lab.bench.plot import Points, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def chart(series: dict[str, Points], **options: bool) -> ET.Element:
    return ET.fromstring(line_chart("Memory", series, x_label="pods", y_label="MB", **options))


def texts(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def lines(svg: ET.Element) -> list[list[tuple[float, float]]]:
    return [
        [
            (float(x), float(y))
            for x, y in (point.split(",") for point in line.get("points", "").split())
        ]
        for line in svg.iter(f"{SVG}polyline")
    ]


def test_title_labels_and_the_name_of_every_series_are_shown() -> None:
    shown = texts(chart({"etcd": [(0, 1)], "<agent> & co": [(1, 2)]}))
    assert {"Memory", "pods", "MB", "etcd", "<agent> & co"} <= set(shown)


def test_larger_values_are_further_right_and_higher_up() -> None:
    ((first, second, third),) = lines(chart({"a": [(0, 10), (5, 20), (10, 40)]}))
    assert first[0] < second[0] < third[0]
    assert first[1] > second[1] > third[1]
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.2)


def test_a_linear_axis_begins_at_zero_and_has_round_ticks() -> None:
    shown = texts(chart({"a": [(0, 95), (120_000, 756)]}))
    assert {"0", "20,000", "120,000", "200", "800"} <= set(shown)


def test_logarithmic_axes_have_one_tick_per_power_of_ten() -> None:
    svg = chart({"a": [(20, 0.5), (200, 5), (2000, 50), (3000, 0), (0, 1)]}, log=True)
    ((first, second, third),) = lines(svg)
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.2)
    assert first[1] - second[1] == pytest.approx(second[1] - third[1], abs=0.2)
    assert {"0.1", "1", "100", "1,000", "10,000"} <= set(texts(svg))


@pytest.mark.parametrize("points", [[], [(0, 0)], [(3, -2), (3, -2)], [(1, float("nan"))]])
@pytest.mark.parametrize("log", [False, True])
def test_few_or_unusable_values_make_a_chart_as_well(points: Points, log: bool) -> None:
    chart({"a": points}, log=log)


def test_ten_series_can_be_told_apart() -> None:
    svg = chart({f"s{n}": [(0, n), (1, n)] for n in range(10)})
    styles = {(p.get("stroke"), p.get("stroke-dasharray")) for p in svg.iter(f"{SVG}polyline")}
    assert len(styles) == 10
