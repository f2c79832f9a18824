"""Pack requests and results of shards as bytes, small enough to be part of the call itself.

Ray carries up to 100 KB of arguments or results inside the call; more goes through its object
store and costs 3 to 5 ms instead of 1 to 2 (measured). So arrays have as few bytes per value as
possible, rows are a bitmap, and large results are compressed.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsched.decide.accelerators.evaluation_result import EvaluationResult
from podsched.decide.accelerators.sharding import EvaluationRequest
from podsched.decide.evaluation.dry_run import DryRunRequest
from podsched.framework.nodes import Bools
from podsched.framework.plugin import CycleState
from podsched.framework.verdicts import Reason, Rows, Verdicts

#: From this many bytes on, compressing (some 10 ms per MB) is cheaper than the object store.
COMPRESS_FROM = 80_000
#: Max bytes of CycleState per plugin; the leader runs plugins with more. Such a state is an array
#: over all rows, and once it is computed the rest of the plugin's work is small.
MOST_STATE = 32_768
#: Max bytes of PodDisruptionBudgets, some 60 each; with more, the leader makes all dry runs itself.
MOST_BUDGETS = 65_536


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """Integers as their distance from ``low`` in the narrowest type; no data: all equal low."""

    low: int
    count: int
    type: str
    data: bytes


def pack_numbers(values: NDArray[Any]) -> PackedNumbers:
    """Pack integers of 64 bits, signed or not."""
    if not len(values):
        return PackedNumbers(0, 0, "", b"")
    low, high = int(values.min()), int(values.max())
    if low == high:
        return PackedNumbers(low, len(values), "", b"")
    kind = np.min_scalar_type(high - low)
    # Differences wrap around in 64 bits on both sides, so that any two values have one.
    wide = values.astype(np.uint64) - np.uint64(low % (1 << 64))
    return PackedNumbers(low, len(values), kind.str, wide.astype(kind).tobytes())


def unpack_numbers(packed: PackedNumbers) -> NDArray[np.uint64]:
    """Return the values in 64 bits; ``view(np.int64)`` of it where they are signed."""
    low = np.uint64(packed.low % (1 << 64))
    if not packed.type:
        return np.full(packed.count, low, dtype=np.uint64)
    return np.frombuffer(packed.data, dtype=packed.type).astype(np.uint64) + low


@dataclass(frozen=True, slots=True)
class _PackedResult:
    size: int
    rows: bytes
    fits: bytes
    verdicts: dict[str, tuple[PackedNumbers, tuple[Reason, ...]] | None]
    raw: dict[str, PackedNumbers]


def dump(value: Any) -> bytes:
    """Pickle a value, and compress it when that pays."""
    data = pickle.dumps(value, protocol=5)
    return b"z" + zlib.compress(data, 1) if len(data) > COMPRESS_FROM else b"p" + data


def load(data: bytes) -> Any:
    """Return the value that ``dump`` was given."""
    body = data[1:]
    return pickle.loads(zlib.decompress(body) if data[:1] == b"z" else body)


def pack_result(result: EvaluationResult, size: int) -> bytes:
    """Pack a result for ascending rows; ``size``: how many rows the columns have."""
    rows = np.zeros(size, dtype=np.bool_)
    rows[result.rows] = True
    verdicts = {
        name: (pack_numbers(v.bits), v.reasons) if v.reasons else None
        for name, v in result.verdicts.items()
    }
    raw = {name: pack_numbers(scores) for name, scores in result.raw.items()}
    return dump(_PackedResult(size, _pack_bools(rows), _pack_bools(result.fits), verdicts, raw))


def unpack_result(data: bytes) -> EvaluationResult:
    """Return the result that ``pack_result`` was given."""
    packed: _PackedResult = load(data)
    rows = np.flatnonzero(_unpack_bools(packed.rows, packed.size))
    verdicts = {}
    for name, said in packed.verdicts.items():
        if said is None:
            verdicts[name] = Verdicts(np.zeros(len(rows), dtype=np.uint64), ())
        else:
            verdicts[name] = Verdicts(unpack_numbers(said[0]), said[1])
    raw = {name: unpack_numbers(scores).view(np.int64) for name, scores in packed.raw.items()}
    return EvaluationResult(rows, verdicts, _unpack_bools(packed.fits, len(rows)), raw)


def _pack_bools(values: Bools) -> bytes:
    return np.packbits(values).tobytes()


def _unpack_bools(data: bytes, count: int) -> Bools:
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count)
    return bits.astype(np.bool_)


def pack_request(request: EvaluationRequest) -> bytes | None:
    """Return the request without the plugins whose state cannot be sent or is too large.

    None when no filter is left, because then a call would save nothing.
    """
    state, heavy = _light(request.state)
    filters = tuple(name for name in request.filters if not _has_state_in(name, heavy))
    scores = tuple(name for name in request.scores if not _has_state_in(name, heavy))
    if not filters:
        return None
    return dump(replace(request, state=state, filters=filters, scores=scores))


def pack_dry_run_request(request: DryRunRequest) -> bytes | None:
    """Return the request without state that no filter reads.

    None when the state of some filter cannot be sent, or it or the budgets are too large.
    """
    if sum(map(len, request.budgets)) > MOST_BUDGETS:
        return None
    state, heavy = _light(request.state)
    if any(_has_state_in(name, heavy) for name in request.filters):
        return None
    return dump(replace(request, state=state))


def pack_rows(rows: Rows) -> bytes:
    """Pack rows in any order, at least one, as a bitmap."""
    marked = np.zeros(int(rows.max()) + 1, dtype=np.bool_)
    marked[rows] = True
    return dump(_pack_bools(marked))


def unpack_rows(data: bytes) -> Rows:
    """Return the rows, ascending."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(load(data), dtype=np.uint8)))


def _light(state: CycleState) -> tuple[CycleState, list[str]]:
    """Return the state without data that cannot be sent or is too large, and the keys of that."""
    heavy = [key for key, value in state.data.items() if not _travels(value)]
    light = {key: value for key, value in state.data.items() if key not in heavy}
    return CycleState(light, state.skip_filter, state.skip_score), heavy


def _travels(value: Any) -> bool:
    try:
        return len(pickle.dumps(value, protocol=5)) <= MOST_STATE
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return False


def _has_state_in(name: str, keys: Iterable[str]) -> bool:
    """Plugins keep their state under their name, or under keys that begin with it."""
    return any(key.startswith(name) for key in keys)
