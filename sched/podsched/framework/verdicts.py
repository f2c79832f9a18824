"""The verdicts of a Filter plugin on many rows at once: one 64-bit word of reason bits per row.

Bit ``i`` of a row's word is set when ``reasons[i]`` applies to the row; a word of 0 means the
node passes. The status code of a row is ERROR if one of its reasons is an error, else
UNSCHEDULABLE_AND_UNRESOLVABLE if one of its reasons is, else UNSCHEDULABLE.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsched.framework.status import SUCCESS, Code, Status

Bits = NDArray[np.uint64]
Rows = NDArray[np.intp]
Scores = NDArray[np.int64]

#: Max reasons of one plugin: each is a bit of a 64-bit word.
MAX_REASONS = 64
#: Up to this many rows, a loop over single cells is faster than NumPy, which takes at least 0.5 µs
#: per call.
FEW_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class Reason:
    """The text of a reason, and its status code."""

    code: Code
    text: str


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one plugin; ``bits`` has shape ``(len(rows),)``, parallel to these rows."""

    bits: Bits
    reasons: tuple[Reason, ...]

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """Shape ``(len(rows),)``: True where the node passes."""
        passed: NDArray[np.bool_] = self.bits == 0
        return passed

    def status(self, index: int, plugin: str = "") -> Status:
        """Return the status at position ``index`` of ``bits`` (not a row number)."""
        return status_of(int(self.bits[index]), self.reasons, plugin)


def status_of(word: int, reasons: tuple[Reason, ...], plugin: str = "") -> Status:
    """Turn a row's word of reason bits into a Status."""
    if word == 0:
        return SUCCESS
    # Of several reasons the worst code decides, so that preemption tries no row that even one
    # reason makes unresolvable.
    hit = [reason for i, reason in enumerate(reasons) if word >> i & 1]
    codes = {reason.code for reason in hit}
    for code in (Code.ERROR, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
        if code in codes:
            return Status(code, tuple(reason.text for reason in hit), plugin)
    return Status(Code.UNSCHEDULABLE, tuple(reason.text for reason in hit), plugin)


@dataclass(slots=True)
class Verdicter:
    """Builds Verdicts: ``flag(mask, code, text)`` sets a reason's bit where the mask is True."""

    size: int
    bits: Bits = field(init=False)
    reasons: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bits = np.zeros(self.size, dtype=np.uint64)

    def flag(self, mask: NDArray[np.bool_], code: Code, text: str) -> None:
        """Add a reason for the rows where ``mask`` (shape ``(size,)``) is True."""
        if not mask.any():
            return
        reason = Reason(code, text)
        if reason not in self.reasons:
            if len(self.reasons) == MAX_REASONS:
                # More distinct texts than bits: the last reason stands for all others.
                reason = self.reasons[-1]
            else:
                self.reasons.append(reason)
        self.bits[mask] |= np.uint64(1 << self.reasons.index(reason))

    def done(self) -> Verdicts:
        return Verdicts(self.bits, tuple(self.reasons))


def all_pass(size: int) -> Verdicts:
    """Return verdicts by which each of ``size`` rows passes."""
    return Verdicts(np.zeros(size, dtype=np.uint64), ())


def rejecting(mask: NDArray[np.bool_], code: Code, text: str) -> Verdicts:
    """Return verdicts that reject, for one reason, the rows where ``mask`` is True."""
    verdicts = Verdicter(len(mask))
    verdicts.flag(mask, code, text)
    return verdicts.done()
