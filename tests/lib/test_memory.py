"""Memory that was freed is kept for what comes next."""

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


def pages_of_arrays(first: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(first=first)],
        capture_output=True,
        check=True,
        text=True,
    )
    return int(done.stdout)


def test_arrays_take_the_memory_of_those_that_were_freed() -> None:
    assert pages_of_arrays("keep_freed_memory()") < 2_000 < pages_of_arrays("")
