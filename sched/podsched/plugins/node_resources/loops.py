"""One loop over all rows, compiled by numba if it is installed, in place of thirty NumPy passes.

If every pod has other requests, both plugins compute all rows again for each pod. With 500 nodes,
most of the time goes to the overhead of NumPy's calls; from 20,000 nodes on, the intermediate
arrays do not fit into the processor's caches. The loop reads each row once: a decision takes 0.55
of the time with 500 nodes and 0.38 with 20,000 (docs/performance-history.md).

Guarantee: the same rows and totals, bit by bit, as the plugins' own passes (property test): the
same operations on float64 in the same order, none of which numba contracts or reorders.
There is no loop without numba, nor before ``compile_loops`` was called.

Rejected: compiling the scores of each plugin separately. That saves 6 to 8 %, and one loop for
filter, scores, totals and the best row saves 20 to 45 %.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podsched.framework.nodes import Int64s

Floats = NDArray[np.float64]

#: The best row, its total, and how many rows are feasible.
Best = tuple[int, float, int]
#: See ``choose``.
ChooseLoop = Callable[
    [
        Floats, Floats, Floats, Int64s, Int64s, Floats,
        float, float, float, float, float, float, float, float, Floats,
    ],
    Best,
]  # fmt: skip

_SIGNATURE: Final = (
    "Tuple((int64, float64, int64))("
    "float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], int64[:, ::1], float64[::1], "
    "float64, float64, float64, float64, float64, float64, float64, float64, float64[::1])"
)

_compiled: ChooseLoop | None = None


def choose_loop() -> ChooseLoop | None:
    """Return the compiled loop; None if there is none."""
    return _compiled


def compile_loops() -> str:
    """Compile the loop or load it from numba's cache on disk; return numba's version.

    Returns "" if numba is not installed or disabled. Takes 1 s the first time, then 0.2 s.
    """
    global _compiled
    try:
        numba: Any = importlib.import_module("numba")
    except ImportError:
        return ""
    if numba.config.DISABLE_JIT:  # set by NUMBA_DISABLE_JIT: the loop would run in Python
        return ""
    # By default numba checks each divisor for 0, as Python does. Then the loop is not vectorized
    # and takes twice the time.
    options = {"error_model": "numpy"}
    try:
        _compiled = numba.njit(_SIGNATURE, cache=True, **options)(choose)
    except RuntimeError:  # there is no directory for the cache
        _compiled = numba.njit(_SIGNATURE, **options)(choose)
    version: str = numba.__version__
    return version


def choose(
    allocatable: Floats,
    nonzero: Floats,
    used: Floats,
    balance: Int64s,
    room: Int64s,
    others: Floats,
    cpu: float,
    memory: float,
    cpu_requested: float,
    memory_requested: float,
    cpu_filtered: float,
    memory_filtered: float,
    fit_weight: float,
    balance_weight: float,
    totals: Floats,
) -> Best:
    """Compute the totals of all rows, and return the first of the best rows.

    Writes the totals to ``totals``, shape ``(size,)``; -1 for rows that are not feasible.
    ``allocatable``, ``nonzero``, ``used``, ``balance`` and ``room`` are the arrays of
    ``NodeAmounts``. ``others`` has the totals of all other plugins, below 0 for rows that one of
    them rejects. Of the pod's cpu and memory, ``cpu`` and ``memory`` are the amounts that
    NodeResourcesFit's Score counts (with defaults for containers without requests), ``*_requested``
    the requests, and ``*_filtered`` the amounts that Filter compares: the requests, or -inf in
    place of 0.

    The formulas are those of ``least_allocated_exactly``, ``balance_of`` and ``_gain``. There are
    two loops, because the first has no branch and is compiled to instructions on several rows at
    once.
    """
    cpus, memories, more_cpu, more_memory = allocatable[0], allocatable[1], nonzero[0], nonzero[1]
    used_cpu, used_memory, room_for_pods = used[0], used[1], room[2]
    feasible = 0
    for row in range(len(totals)):
        free_cpu = np.floor(max((cpus[row] - more_cpu[row] - cpu) * 100.0 / cpus[row], 0.0))
        free_memory = np.floor(
            max((memories[row] - more_memory[row] - memory) * 100.0 / memories[row], 0.0)
        )
        fit = np.floor((free_cpu + free_memory) * 0.5)
        share_cpu = min((used_cpu[row] + cpu_requested) / cpus[row], 1.0)
        share_memory = min((used_memory[row] + memory_requested) / memories[row], 1.0)
        even = np.floor((1.0 - abs((share_cpu - share_memory) / 2.0)) * 100.0)
        gain = np.floor((even - balance[row] + 150.0) * 0.5)
        total = fit * fit_weight + gain * balance_weight + others[row]
        # Amounts are exact, so what is free is computed here and not read from ``room``.
        fits = (
            (used_cpu[row] + cpu_filtered <= cpus[row])
            & (used_memory[row] + memory_filtered <= memories[row])
            & (room_for_pods[row] > 0)
            & (others[row] >= 0.0)
        )
        totals[row] = total if fits else -1.0
        feasible += 1 if fits else 0
    best, place = -1.0, 0
    for row in range(len(totals)):
        if totals[row] > best:
            best, place = totals[row], row
    return place, best, feasible
