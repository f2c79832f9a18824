"""Where a process spends its CPU time: a sample each 10 ms that it has used.

The kernel's profiling timer counts the CPU time of all threads and then sends a signal, which
Python handles in the main thread, between two steps of whatever runs there. Unlike a thread that
looks at the others every so often, this sees short pieces of work as often as they deserve: such a
thread gets its turn when the main thread waits, which it then takes for what it does.

A sample counts for the time used since the last one, as a long call of a library takes several
signals as one. If the main thread waits for events when a sample is due, and has used the lesser
part of that time, it was other threads: those of gRPC, Ray or NumPy have no stacks in Python.
"""

from __future__ import annotations

import selectors
import signal
import time
from types import FrameType

from podsched.telemetry.profiling.profile import Call, Period, Stack, ValueType, encode, stack_of

#: Samples per second of CPU time: as many as Go takes.
_RATE = 100
_TYPES = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"))
_OTHER_THREADS: Stack = (Call("(other threads)", "", 0, 0),)


class AlreadyProfiling(RuntimeError):
    """There is one profiling timer in a process, and it is in use."""


class CpuProfiler:
    """Takes samples from ``start`` to ``stop``, both in the main thread."""

    def __init__(self) -> None:
        self._samples: dict[Stack, tuple[int, int]] = {}
        self._began = 0.0
        self._used = 0
        self._used_here = 0

    def start(self) -> None:
        """Begin. Raises ``AlreadyProfiling``."""
        if signal.getsignal(signal.SIGPROF) not in (signal.SIG_DFL, signal.SIG_IGN):
            raise AlreadyProfiling("cpu profiling already in use")
        self._began = time.time()
        self._used, self._used_here = time.process_time_ns(), time.thread_time_ns()
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, 1 / _RATE, 1 / _RATE)

    def stop(self) -> bytes:
        """End. Returns the profile."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        # A signal that is on its way must not end the process, as it does by default.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        period = Period(_TYPES[-1], 1_000_000_000 // _RATE)
        seconds = time.time() - self._began
        return encode(_TYPES, self._samples, began=self._began, seconds=seconds, period=period)

    def _take(self, _: int, frame: FrameType | None) -> None:
        now, here = time.process_time_ns(), time.thread_time_ns()
        used, used_here = now - self._used, here - self._used_here
        self._used, self._used_here = now, here
        others = _waits(frame) and used_here < used / 2
        stack = _OTHER_THREADS if others else stack_of(frame)
        count, nanoseconds = self._samples.get(stack, (0, 0))
        self._samples[stack] = count + 1, nanoseconds + used


def _waits(frame: FrameType | None) -> bool:
    """Return whether a frame waits for events."""
    return (
        frame is not None
        and frame.f_code.co_name == "select"
        and frame.f_code.co_filename == selectors.__file__
    )
