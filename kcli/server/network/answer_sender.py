"""Sends the large answers of a connection in pieces, whenever the socket accepts more bytes.

The records of a Fetch stay in their files until they are sent (FileRange). A piece is copied from the page cache into a
shared buffer, and is immediately written to the socket. Over the loopback, this copy needs less CPU time than sendfile,
and less than a new buffer for each answer. If the socket accepts only a part of a piece, the transport gets the rest.
The sender continues when the transport has sent the rest.

With TLS and in the simulated network, the sender cannot write to the socket itself. In these cases, the sender gives
all pieces to the transport, in the same order.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import cast

from kcli.errors import StorageError
from kcli.model.buffers import FileRange, Part
from kcli.runtime.threads import READS
from kcli.server.network.tls_transport import TlsTransport

# The size of a piece. Larger pieces would not save CPU time, and the transport would keep more bytes for a client that
# does not read. The transport keeps at most a copy of one piece. glibc reuses memory for such a copy. It maps new
# memory only for copies of 128 KiB or more.
PIECE_SIZE_BYTES = 120 * 1024
# The bytes that one connection sends in a iteration of the event loop. This takes about half a millisecond.
SENT_PER_TURN_BYTES = 1024 * 1024
# A smaller part of an answer counts as this many bytes of a piece, because even the smallest part takes more than a
# microsecond. The answer to a Fetch has two parts for each partition.
PART_SIZE_MIN_BYTES = 1024
# Unsent output above which a transport reports that it is full.
WRITE_HIGH_WATER_BYTES = 64 * 1024
# The most bytes of unsent answers in memory, over all connections. Above this limit, the connection that has sent
# nothing for the longest time is closed.
UNSENT_MAX_BYTES = 256 * 1024 * 1024
# The number of pieces that are read from the device at the same time. More reads would take too many of the threads
# that other work also needs.
DEVICE_READS_MAX = 4

IN_MEMORY = (bytes, bytearray, memoryview)


class SharedSending:
    """The state that all senders of an event loop share: the buffer for pieces, the limit on device reads, and the
    unsent bytes."""

    __slots__ = (
        "_due",
        "_is_turn_over",
        "device_reads",
        "piece",
        "senders",
        "unsent_bytes",
        "unsent_max_bytes",
    )

    def __init__(self, unsent_max_bytes: int = UNSENT_MAX_BYTES) -> None:
        self.piece = memoryview(bytearray(PIECE_SIZE_BYTES))
        self.device_reads = asyncio.Semaphore(DEVICE_READS_MAX)
        self.unsent_bytes = 0
        """The unsent bytes of answers in memory. Bytes that the transports hold are not counted."""
        self.unsent_max_bytes = unsent_max_bytes
        self.senders: dict[AnswerSender, None] = {}
        """The senders with unsent answers. The first sender is the one that has sent nothing for the longest time."""
        self._due: deque[AnswerSender] = deque()
        self._is_turn_over = False

    def may_send(self, sender: AnswerSender) -> bool:
        """Returns True if `sender` may send in this iteration ("turn") of the event loop. If the result is False,
        `go_on` of the sender is called in a later iteration.

        Only one sender sends in each iteration, so that clients with many large answers do not delay other clients.
        """
        if self._is_turn_over:
            self._due.append(sender)
            return False
        self._is_turn_over = True
        asyncio.get_running_loop().call_soon(self._next_turn)
        return True

    def _next_turn(self) -> None:
        self._is_turn_over = False
        while self._due and not self._is_turn_over:
            self._due.popleft().go_on()

    def close_the_slowest(self, except_for: AnswerSender) -> None:
        """Closes the connections that have sent nothing for the longest time, until the unsent answers of all
        connections are within the limit.
        """
        for sender in list(self.senders):
            if self.unsent_bytes <= self.unsent_max_bytes:
                return
            if sender is not except_for and sender.unsent_bytes:
                sender.fail(
                    f"the client does not read its answers, and unsent answers exceed {self.unsent_max_bytes} bytes"
                )


class AnswerSender:
    """The unsent answers of one connection, in order."""

    __slots__ = (
        "_at",
        "_encrypts",
        "_failed",
        "_fd",
        "_loop",
        "_parts",
        "_progressed",
        "_read",
        "_read_ahead",
        "_sent_all",
        "_shared",
        "_transport",
        "unsent_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        shared: SharedSending,
        *,
        progressed: Callable[[], None],
        sent_all: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Makes a sender without answers. If an answer cannot be completed, `failed` is called with a reason, and must
        close the connection."""
        self.unsent_bytes = 0
        self._transport = transport
        self._shared = shared
        self._progressed = progressed
        self._sent_all = sent_all
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._parts: deque[Part] = deque()
        self._at = 0  # the bytes of the first part that have been sent
        self._read: asyncio.Task[None] | None = None
        self._read_ahead = b""  # the next bytes of the first part, already read from the device
        self._fd = _descriptor(transport)
        self._encrypts = isinstance(transport, TlsTransport)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is unsent. Bytes that the transport holds count as sent."""
        return bool(self._parts)

    def send(self, answer: Iterable[Part]) -> None:
        """Sends the parts of an answer after all earlier parts. Empty parts are skipped."""
        was_busy = self.is_busy
        for part in answer:
            if len(part):
                self._parts.append(part)
                if isinstance(part, IN_MEMORY):
                    self._count_unsent(len(part))
        if was_busy or not self._parts:
            return
        self._shared.senders[self] = None
        # With a high-water mark of 0, the transport reports when it has sent everything.
        self._transport.set_write_buffer_limits(high=0)
        self.go_on()
        if self._shared.unsent_bytes > self._shared.unsent_max_bytes:
            self._shared.close_the_slowest(except_for=self)

    def go_on(self) -> None:
        """Sends until the socket accepts no more bytes, or SENT_PER_TURN_BYTES are sent."""
        if self._read is not None or not self._parts:
            return
        if self._transport.is_closing():
            self.clear()
            return
        # The transport must first send the bytes that it holds. It reports when it has sent them.
        if self._transport.get_write_buffer_size() or not self._shared.may_send(self):
            return
        self._progressed()
        # Moves this sender to the end of the order, because it has made progress.
        self._shared.senders.pop(self, None)
        self._shared.senders[self] = None
        left = SENT_PER_TURN_BYTES
        try:
            while self._parts and left > 0:
                size = self._fill()
                if size == 0:
                    self._read = self._loop.create_task(self._read_from_device(), name="read-answer")
                    return
                left -= PIECE_SIZE_BYTES
                self._write(self._shared.piece[:size])
                if self._transport.get_write_buffer_size() and self._parts:
                    return
        except StorageError as error:
            self.fail(str(error))
        except OSError:
            self.clear()
            self._transport.abort()  # the client has closed the connection
        else:
            self._end_turn()

    def clear(self) -> None:
        """Forgets the unsent answers, and releases their files."""
        self._parts.clear()
        self._at = 0
        self._count_unsent(-self.unsent_bytes)
        self._shared.senders.pop(self, None)
        if self._read is not None:
            self._read.cancel()

    def fail(self, reason: str) -> None:
        self.clear()
        self._failed(reason)

    def _fill(self) -> int:
        """Moves the next bytes into the shared buffer. Returns the number of bytes. 0 means that the bytes must first
        be read from the disk.
        """
        piece, filled, room = self._shared.piece, 0, PIECE_SIZE_BYTES
        while self._parts and room > 0:
            part, at = self._parts[0], self._at
            size = min(room, len(part) - at)
            if isinstance(part, IN_MEMORY):
                piece[filled : filled + size] = memoryview(part)[at : at + size]
            else:
                got = self._copy(part, at, piece[filled : filled + size])
                if got is None:
                    break
                size = got
            filled += size
            room -= max(size, PART_SIZE_MIN_BYTES)
            self._at += size
            if self._at == len(part):
                self._drop_first()
        return filled

    def _copy(self, part: FileRange, at: int, target: memoryview) -> int | None:
        if self._read_ahead:
            got = min(len(self._read_ahead), len(target))
            target[:got] = self._read_ahead[:got]
            self._read_ahead = self._read_ahead[got:]
            return got
        got_cached = part.read_cached_into(at, target)
        if got_cached == 0:
            raise StorageError(
                f"a segment lost its end while it was sent: {len(part) - at} bytes are missing"
            )
        return got_cached

    def _drop_first(self) -> None:
        part = self._parts.popleft()
        self._at = 0
        if isinstance(part, IN_MEMORY):
            self._count_unsent(-len(part))

    def _write(self, piece: memoryview) -> None:
        sent = 0
        if self._fd is not None:
            with suppress(BlockingIOError):
                sent = os.write(self._fd, piece)
        if sent < len(piece):
            # TLS encrypts the piece before the call returns. Other transports may keep the piece, so they get a copy.
            self._transport.write(piece if self._encrypts else bytes(piece[sent:]))

    def _end_turn(self) -> None:
        if self._parts:
            self.go_on()  # sends the rest in a later turn
            return
        self._shared.senders.pop(self, None)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self._sent_all()

    async def _read_from_device(self) -> None:
        part, at = cast(FileRange, self._parts[0]), self._at
        size = min(PIECE_SIZE_BYTES, len(part) - at)
        try:
            async with self._shared.device_reads:
                piece = await READS.run(part.read_piece, at, size)
            if not piece:
                raise StorageError(
                    f"a segment lost its end while it was sent: {len(part) - at} bytes are missing"
                )
        except StorageError as error:
            self._read = None
            self.fail(str(error))
            return
        self._read = None
        self._read_ahead = piece
        self.go_on()

    def _count_unsent(self, size_bytes: int) -> None:
        self.unsent_bytes += size_bytes
        self._shared.unsent_bytes += size_bytes


def size_in_memory(answer: list[Part]) -> int | None:
    """The size of an answer in bytes; None if a part of the answer is still in a file."""
    size = 0
    for part in answer:
        if not isinstance(part, IN_MEMORY):
            return None
        size += len(part)
    return size


def _descriptor(transport: asyncio.Transport) -> int | None:
    """The file descriptor of the transport's socket. None if the transport has no socket or encrypts the bytes
    (TLS)."""
    opened = transport.get_extra_info("socket")
    if opened is None or transport.get_extra_info("sslcontext") is not None:
        return None
    descriptor: int = opened.fileno()
    return descriptor
