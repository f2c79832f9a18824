"""What happens to a cluster, made up at random, and what a browser makes of it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from podsched.api.objects import AnyObject
from support.page_world import START, event, node, pod, pod_group

NAMES = st.integers(0, 4)


class Browser:
    """Applies states and deltas, as the page's store does."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.known = copy.deepcopy(state)
        self.nodes = {row[0]: row for row in self.known.pop("nodes")}
        self.lists = {
            name: {row[0]: row for row in self.known.pop(name)}
            for name in ("pending", "events", "decisions")
        }

    def apply(self, delta: dict[str, Any]) -> None:
        for name, rows in self.lists.items():
            change = delta.get(name, {"set": [], "gone": []})
            for key in change["gone"]:
                del rows[key]
            rows.update((row[0], row) for row in change["set"])
        for name in ("zones", "shapes"):
            self.known[name] += delta.get(name, [])
        for number in delta.get("gone", []):
            self.nodes.pop(number, None)
        self.nodes.update((row[0], row) for row in delta.get("nodes", []))
        for number, *used in delta.get("use", []):
            self.nodes[number] = [*self.nodes[number][:5], *used]
        for name in ("totals", "groups"):
            self.known[name] = delta.get(name, self.known[name])

    def seen(self) -> dict[str, Any]:
        """Return what it knows, with zones and shapes in place of their numbers."""
        nodes = {
            row[1]: [self.known["zones"][row[2]], self.known["shapes"][row[3]], *row[4:]]
            for row in self.nodes.values()
        }
        counts = {name: self.known[name] for name in ("resources", "totals", "groups")}
        return {"nodes": nodes, **self.lists, **counts}


CHANGES = st.one_of(
    st.builds(
        lambda i, cpu, zone, off: ("Node", f"n{i}", node(f"n{i}", cpu, zone, cordoned=off)),
        NAMES,
        st.sampled_from(["4", "8"]),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
    ),
    st.builds(lambda i: ("Node", f"n{i}", None), NAMES),
    st.builds(
        lambda i, on, cpu, phase, group, at: (
            "Pod",
            f"default/p{i}",
            pod(
                f"p{i}",
                f"n{on}" if on >= 0 else "",
                cpu=cpu,
                message="no room",
                phase=phase,
                group=group,
                at=at,
            ),
        ),
        NAMES,
        st.integers(-1, 4),
        st.sampled_from(["1", "250m"]),
        st.sampled_from(["", "Succeeded"]),
        st.sampled_from(["", "p1", "g"]),
        st.sampled_from([START, START + 5]),
    ),
    st.builds(
        lambda name, least, done: (
            "PodGroup",
            f"default/{name}",
            pod_group(name, least, scheduled=done, message="no room"),
        ),
        st.sampled_from(["p1", "g"]),
        st.sampled_from([0, 2]),
        st.booleans(),
    ),
    st.builds(lambda name: ("PodGroup", f"default/{name}", None), st.sampled_from(["p1", "g"])),
    st.builds(lambda i: ("Pod", f"default/p{i}", None), NAMES),
    st.builds(lambda i, at: ("Event", f"default/e{i}", event(f"e{i}", at)), NAMES, NAMES),
    st.builds(lambda i: ("Event", f"default/e{i}", None), NAMES),
)
TICKS = st.lists(st.lists(CHANGES, max_size=8), max_size=6)
Changes = list[tuple[str, str, AnyObject | None]]
