"""Memory that was freed is kept for what comes next, and nothing is held up by old objects."""

from __future__ import annotations

import subprocess
import sys

#: Prints how many pages the kernel handed out for five arrays of 1.6 MB, 2,000 pages, again and
#: again.
_PROGRAM = """
import resource
import numpy as np
from podsched.lib.memory import keep_freed_memory
{first}
faults = 0
for number in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [np.ones(200_000) for _ in range(5)]
    if number:
        faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults)
"""


#: Prints the most objects that the collector looked at at once while 100,000 were made, and whether
#: they are still there when only cycles keep them, before and after everything is collected.
_KEEPING = """
import gc, weakref
from podsched.lib.memory import collect_everything, freeze_survivors
freeze_survivors()
looked_at = []
def look(phase, info):
    if phase == "start":
        looked_at.append(sum(len(gc.get_objects(g)) for g in range(info["generation"] + 1)))
gc.callbacks.insert(0, look)
class Kept: pass
kept = [Kept() for _ in range(100_000)]
for one in kept:
    one.itself = one
last = weakref.ref(kept[0])
print(max(looked_at))
del kept, one
print(int(last() is not None))
collect_everything()
print(int(last() is not None))
"""


#: Prints how many objects the collector looked at while 200,000 were made that stay, and how many
#: of 200,000 objects in cycles were left when no other object referred to them any more.
_GROWING = """
import gc
from podsched.lib.memory import expect_no_garbage, freeze_survivors
class Kept: pass
def made(count, cyclic):
    kept = []
    for _ in range(count):
        kept.append(Kept())
        if cyclic:
            kept[-1].itself = kept[-1]
            if len(kept) == 100:
                kept = []
    return kept
freeze_survivors()
{first}
looked_at = 0
def look(phase, info):
    global looked_at
    if phase == "start":
        looked_at += sum(len(gc.get_objects(g)) for g in range(info["generation"] + 1))
gc.callbacks.append(look)
kept = made(200_000, cyclic=False)
print(looked_at)
made(200_000, cyclic=True)
gc.unfreeze()
print(sum(type(one) is Kept for one in gc.get_objects()) - len(kept))
"""


def printed_by(program: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return [int(line) for line in done.stdout.split()]


def pages_of_arrays(first: str) -> int:
    return printed_by(_PROGRAM.format(first=first))[0]


def test_the_collector_looks_at_few_objects_at_once_and_at_all_when_it_is_told_to() -> None:
    most, before, after = printed_by(_KEEPING)
    assert 5_000 < most < 25_000
    assert (before, after) == (1, 0)


def test_where_no_garbage_is_expected_the_collector_looks_at_growth_only_if_it_finds_some() -> None:
    looked_at, garbage = printed_by(_GROWING.format(first="expect_no_garbage()"))
    assert looked_at < 100_000
    assert garbage < 60_000


def test_the_collector_looks_at_all_growth_where_garbage_is_expected() -> None:
    looked_at, garbage = printed_by(_GROWING.format(first=""))
    assert looked_at > 200_000
    assert garbage < 5_000


def test_arrays_take_the_memory_of_those_that_were_freed() -> None:
    assert pages_of_arrays("keep_freed_memory()") < 2_000 < pages_of_arrays("")
