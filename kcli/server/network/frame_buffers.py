"""Memory for frames: one scratch buffer and recycled frame buffers, shared by all connections of an event loop."""

from __future__ import annotations

# The size of the scratch buffer. One read usually empties a socket buffer of this size, and a larger scratch buffer
# would displace more of the CPU cache.
SCRATCH_SIZE_BYTES = 64 * 1024
# The largest frame whose buffer is recycled. Larger frames are rare, and their memory returns to the operating system.
POOLED_FRAME_SIZE_MAX_BYTES = 4 * 1024 * 1024
POOL_SIZE_MAX_BYTES = 16 * 1024 * 1024


class FrameBuffers:
    """The scratch buffer and the recycled frame buffers of one event loop.

    A new megabyte of memory costs 256 page faults. A recycled megabyte costs none, and is already in the CPU cache.
    """

    __slots__ = ("_free", "_free_bytes", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))
        self._free: dict[int, list[memoryview]] = {}
        self._free_bytes = 0

    def take(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes."""
        if size > POOLED_FRAME_SIZE_MAX_BYTES:
            return memoryview(bytearray(size))
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
