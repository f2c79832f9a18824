"""Azure's traces of virtual machines."""

from __future__ import annotations

import gzip
from pathlib import Path

from podsched.api.objects import Node
from podsched.lab.replay.traces import azure
from podsched.lab.replay.traces.builder import GIB

#: id, subscription, deployment, created, deleted, max, avg, p95, category, cores, memory
TABLE = """\
a,s,d,0,600,90,10,50,Interactive,24,64
b,s,d,300,900,90,10,50,Delay-insensitive,>24,>64
c,s,d,1200,1500,90,10,50,Unknown,2,4
"""


def test_machines_come_run_and_go(tmp_path: Path) -> None:
    (tmp_path / "vmtable.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    found = azure.read(tmp_path)
    assert found.run_times == {
        "uid-vm-0000000": 600.0,
        "uid-vm-0000001": 600.0,
        "uid-vm-0000002": 300.0,
    }
    arrivals = [(s.at, s.key, s.item.spec.priority) for s in found.changes]  # type: ignore[union-attr]
    assert arrivals == [
        (0.0, "trace/vm-0000000", azure.INTERACTIVE),
        (300.0, "trace/vm-0000001", 0),
        (1200.0, "trace/vm-0000002", 0),
    ]
    requests = found.changes[1].item.spec.containers[0].resources.requests  # type: ignore[union-attr]
    assert dict(requests) == {"cpu": "32000m", "memory": str(128 * GIB)}, "of the open buckets"
    assert found.seconds == 1500.0


def test_there_are_as_many_nodes_as_the_peak_fills_to_four_fifths(tmp_path: Path) -> None:
    rows = "".join(
        f"{n},s,d,{100 * (n % 2)},{100 * (n % 2) + 100},1,1,1,Unknown,8,8\n" for n in range(64)
    )
    (tmp_path / "vmtable.csv").write_text("vmid,sub,dep,created,deleted,a,b,c,d,e,f\n" + rows)
    nodes = [item for item in azure.read(tmp_path).objects if isinstance(item, Node)]
    assert len(nodes) == 5, "32 machines of 8 cores at a time: 4 nodes at 100 %"


def test_what_comes_later_than_wanted_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "vmtable.csv").write_text(TABLE)
    found = azure.read(tmp_path, 400.0)
    assert len(found.changes) == 2
    assert found.seconds == 400.0
