"""Profiles in pprof's format, made of stacks and what they count for."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

from podsched.v1.pprof_pb2 import Profile, ProfileValueType

#: Calls of a stack that are kept, from the innermost on.
MAX_DEPTH = 128


class Call(NamedTuple):
    """A line of a function on a stack; ``first_line`` is where the function begins."""

    function: str
    file: str
    first_line: int
    line: int


#: The innermost call first.
Stack = tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class ValueType:
    """What the values of a profile's samples are."""

    type: str
    unit: str


@dataclass(frozen=True, slots=True)
class Period:
    """What lies between two samples: so much of something."""

    of: ValueType
    amount: int


def stack_of(frame: FrameType | None) -> Stack:
    """Return the stack of a frame."""
    return tuple(_calls(frame))


def call_of(frame: FrameType) -> Call:
    """Return a frame as a call."""
    code = frame.f_code
    # Compiled functions have no lines.
    return Call(code.co_qualname, code.co_filename, code.co_firstlineno, frame.f_lineno or 0)


def _calls(frame: FrameType | None) -> Iterator[Call]:
    depth = 0
    while frame is not None and depth < MAX_DEPTH:
        yield call_of(frame)
        frame, depth = frame.f_back, depth + 1


def encode(
    types: Iterable[ValueType],
    samples: Mapping[Stack, tuple[int, ...]],
    *,
    began: float,
    seconds: float = 0.0,
    period: Period | None = None,
) -> bytes:
    """Return a profile as pprof writes it to files: a compressed message.

    ``samples``: for each stack a value of each type. ``began``: seconds since the epoch. The last
    type is the one that is shown first.
    """
    writer = _Writer()
    profile = writer.profile
    for of in types:
        profile.sample_type.append(writer.value_type(of))
    for stack, values in samples.items():
        profile.sample.add(location_id=map(writer.location, stack), value=values)
    about = Profile(
        default_sample_type=profile.sample_type[-1].type,
        time_nanos=int(began * 1e9),
        duration_nanos=int(seconds * 1e9),
    )
    profile.MergeFrom(about)
    if period is not None:
        profile.period_type.CopyFrom(writer.value_type(period.of))
        profile.period = period.amount
    profile.string_table.extend(writer.texts)
    return gzip.compress(profile.SerializeToString())


class _Writer:
    """Numbers texts, functions and lines as they come."""

    def __init__(self) -> None:
        self.profile = Profile()
        self.texts: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str, int], int] = {}
        self._locations: dict[Call, int] = {}

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def value_type(self, of: ValueType) -> ProfileValueType:
        return ProfileValueType(type=self.text(of.type), unit=self.text(of.unit))

    def location(self, call: Call) -> int:
        if call not in self._locations:
            number = self._locations[call] = len(self._locations) + 1
            location = self.profile.location.add(id=number)
            location.line.add(function_id=self._function(call), line=call.line)
        return self._locations[call]

    def _function(self, call: Call) -> int:
        key = (call.function, call.file, call.first_line)
        if key not in self._functions:
            number = self._functions[key] = len(self._functions) + 1
            name = self.text(call.function)
            self.profile.function.add(
                id=number,
                name=name,
                system_name=name,
                filename=self.text(call.file),
                start_line=call.first_line,
            )
        return self._functions[key]
