"""What a call uses of its flow: a seat, the bytes of its request and answer, an open stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from podsched.serve.server import errors
from podsched.serve.server.access.identity import Identity
from podsched.serve.server.fairness.gate import MAX_UPLOADS, MAX_WATCHES, RETRY_AFTER, Gate
from podsched.serve.server.fairness.intake import SMALL_RESPONSE, Intake, within_time
from podsched.serve.server.fairness.turns import Seat, set_seat


class CallUsage:
    """The usage of one call; nothing is limited without a gate."""

    __slots__ = ("_caller", "_gate", "_method", "_seat", "_size", "intake")

    def __init__(self, gate: Gate | None, method: str) -> None:
        self._gate = gate
        self._method = method
        #: Identity and peer, None until authenticated or without a gate.
        self._caller: tuple[Identity, str] | None = None
        self._seat: Seat | None = None
        self.intake: Intake | None = None
        self._size = 0

    def arrive(self, identity: Identity, peer: str) -> None:
        """Note the authenticated caller, whose flow is used from here on."""
        if self._gate is not None:
            self._caller = (identity, peer)
            self._gate.call_arrived(identity, peer, self._method)

    async def receive(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Read and return the request of an authenticated caller. Raises ApiError."""
        if self._gate is None or self._caller is None:
            return await within_time(read)
        raw, self.intake = await self._gate.receive(*self._caller, self._method, read)
        self._size = len(raw)
        return raw

    async def enter(self, size: int) -> None:
        """Wait for a seat, which the call holds until it ends. Raises ApiError.

        size: bytes of the request.
        """
        if self._gate is not None and self._caller is not None:
            self._seat = await self._gate.enter(*self._caller, self._method, size)
            set_seat(self._seat)

    def charge(self, seconds: float) -> None:
        """Charge seconds of the event loop to the caller's flow."""
        if self._seat is not None:
            self._seat.charge(seconds)

    @contextmanager
    def stream(self, *, uploads: bool = False) -> Iterator[None]:
        """Count the call as a stream of its flow within the block. Raises ApiError if too many.

        uploads: the client sends requests on it.
        """
        if self._seat is None:
            yield
            return
        flow, why = self._seat.flow, ""
        if flow.watches >= MAX_WATCHES:
            why = f"{MAX_WATCHES} watches"
        elif uploads and flow.schema.level.shared and flow.uploads >= MAX_UPLOADS:
            why = f"{MAX_UPLOADS} streams of requests"
        if why:
            raise errors.too_many_requests(f"this client has {why} open already", RETRY_AFTER)
        flow.watches += 1
        flow.uploads += uploads
        try:
            yield
        finally:
            flow.watches -= 1
            flow.uploads -= uploads

    def leave_seat(self) -> None:
        """Release the seat before the call ends: a client may take long to read a stream."""
        if self._seat is not None:
            self._seat.leave()

    def begin_answer(self, size: int) -> None:
        """Count an answer of ``size`` bytes as held by the flow until the call has ended.

        A large one releases the seat: a client that does not read it would keep out others.
        """
        if self.intake is not None and size > SMALL_RESPONSE:
            self.intake.hold(size)
            self._size += size
            self.leave_seat()

    async def sent(self, size: int) -> None:
        """Charge the flow for a stream's response of ``size`` bytes; wait if it used too much."""
        if self._seat is not None:
            await self._seat.sent(size)

    def end(self) -> None:
        """Release what the call still uses."""
        self.leave_seat()
        if self.intake is not None:
            self.intake.release(self._size)
