"""The memory for frames (a frame is the bytes of one request). All connections of an event loop share one scratch
buffer and the recycled frame buffers.

queued.max.request.bytes limits the total size of the frames that do not fit into the scratch buffer. If a frame would
exceed the limit, its connection is not read until memory is free. Small and large frames have separate limits, so that
large frames do not delay small frames. If a client sends its frame too slowly while other frames wait for memory, its
connection is closed.
"""

from __future__ import annotations

import asyncio
import mmap
from dataclasses import dataclass
from typing import Protocol

# The size of the scratch buffer. A socket seldom has more bytes for one read, and a larger buffer would take more of
# the CPU cache.
SCRATCH_SIZE_BYTES = 64 * 1024
# The largest frame whose buffer is recycled. Larger frames are rare, and their memory returns to the operating system.
POOLED_FRAME_SIZE_MAX_BYTES = 4 * 1024 * 1024
POOL_SIZE_MAX_BYTES = 16 * 1024 * 1024
# The memory for frames that are received or wait to be served, over all connections. The first limit is for frames up
# to the pooled size, and the second limit for larger frames. The second limit is enough for two frames of
# socket.request.max.bytes (100 MiB).
SMALL_FRAMES_MAX_BYTES = 64 * 1024 * 1024
LARGE_FRAMES_MAX_BYTES = 200 * 1024 * 1024
# If a client sends a frame more slowly than this and other frames wait for memory, its connection is closed. Usual
# clients are far faster. At this rate, a frame of 100 MiB takes 100 seconds.
FRAME_BYTES_PER_SECOND_MIN = 1024 * 1024
# The time after which the speed of a frame is checked, and the time between two checks.
FRAME_GRACE_SECONDS = 1.0


class Receiver(Protocol):
    """A connection that receives a frame."""

    @property
    def missing_bytes(self) -> int:
        """The bytes of the frame that the client has not sent. 0 if the frame is complete or reading from the client is
        paused."""
        ...

    def memory_is_free(self) -> None:
        """Begins to receive the frame that waited for memory. The limit already counts this frame."""
        ...

    def too_slow(self) -> None:
        """Closes the connection and releases the memory of its frame."""
        ...


@dataclass(frozen=True, slots=True)
class _Held:
    size: int
    since: float


class FrameLimit:
    """Limits the total size of small frames, or of large frames. One frame is always allowed, even if it is larger than
    the limit.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._held: dict[Receiver, _Held] = {}
        self._waiting: dict[Receiver, int] = {}
        self._look: asyncio.TimerHandle | None = None

    def allows(self, receiver: Receiver, size: int) -> bool:
        """Counts a frame of `receiver`. Returns False if the frame must wait until `memory_is_free` is called."""
        if receiver in self._held:
            return True
        if self._waiting or not self._has_room(size):
            self._waiting[receiver] = size
            self._look_soon()
            return False
        self.hold(receiver, size)
        return True

    def release(self, receiver: Receiver) -> None:
        """Releases the memory of the frame of `receiver`, or ends the frame's wait. Then the frames that wait for
        memory get the free memory.
        """
        self._waiting.pop(receiver, None)
        held = self._held.pop(receiver, None)
        if held is not None:
            self.held_bytes -= held.size
        while self._waiting:
            first, size = next(iter(self._waiting.items()))
            if not self._has_room(size):
                return
            del self._waiting[first]
            self.hold(first, size)
            first.memory_is_free()

    def _has_room(self, size: int) -> bool:
        return not self._held or self.held_bytes + size <= self.bytes_max

    def hold(self, receiver: Receiver, size: int) -> None:
        """Counts a frame that is in memory already, also if the limit is reached. New frames then wait."""
        self._held[receiver] = _Held(size, asyncio.get_running_loop().time())
        self.held_bytes += size

    def _look_soon(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(FRAME_GRACE_SECONDS, self._look_for_slow_ones)

    def _look_for_slow_ones(self) -> None:
        self._look = None
        now = asyncio.get_running_loop().time()
        for receiver, held in list(self._held.items()):
            if not self._waiting:
                return
            expected = (now - held.since - FRAME_GRACE_SECONDS) * FRAME_BYTES_PER_SECOND_MIN
            missing = receiver.missing_bytes
            if missing and held.size - missing < expected:
                receiver.too_slow()
        if self._waiting:
            self._look_soon()


class FrameBuffers:
    """The scratch buffer and the recycled frame buffers of one event loop.

    A new megabyte of memory costs 256 page faults. A recycled megabyte costs no page fault and is already in the CPU
    cache.
    """

    __slots__ = ("_free", "_free_bytes", "large", "scratch", "small")

    def __init__(self, held_max_bytes: int | None = None) -> None:
        """Makes the buffers. `held_max_bytes` limits the total size of frames that do not fit into the scratch buffer.
        If it is None, the limits of this module apply."""
        self.scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))
        small = SMALL_FRAMES_MAX_BYTES
        large = LARGE_FRAMES_MAX_BYTES
        if held_max_bytes is not None:
            small = min(small, held_max_bytes // 2)
            large = held_max_bytes - small
        self.small, self.large = FrameLimit(small), FrameLimit(large)
        self._free: dict[int, list[memoryview]] = {}
        self._free_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The total size of the frames that count for a limit."""
        return self.small.held_bytes + self.large.held_bytes

    def limit_of(self, size: int) -> FrameLimit | None:
        """Returns the limit that counts a frame of this size, or None if the frame fits into the scratch buffer."""
        if size <= SCRATCH_SIZE_BYTES:
            return None
        return self.small if size <= POOLED_FRAME_SIZE_MAX_BYTES else self.large

    def take_scratch(self) -> memoryview:
        """Returns the scratch buffer, because a handler still reads it. Another scratch buffer takes its place."""
        taken, self.scratch = self.scratch, self.take(SCRATCH_SIZE_BYTES)
        return taken

    def take(self, size: int) -> memoryview:
        """Returns a buffer of at least `size` bytes."""
        if size > POOLED_FRAME_SIZE_MAX_BYTES:
            # Only pages that have bytes of the frame take memory. When the frame is freed, all pages go back to the
            # system.
            return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        capacity = 1 << max(size - 1, 0).bit_length()
        free = self._free.get(capacity)
        if free:
            self._free_bytes -= capacity
            return free.pop()
        return memoryview(bytearray(capacity))

    def give_back(self, buffer: memoryview) -> None:
        capacity = len(buffer)
        if capacity <= POOLED_FRAME_SIZE_MAX_BYTES and self._free_bytes + capacity <= POOL_SIZE_MAX_BYTES:
            self._free.setdefault(capacity, []).append(buffer)
            self._free_bytes += capacity
