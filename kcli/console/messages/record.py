"""A record as it was read from a partition."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """A record with its partition and offset. `is_append_time` means that the broker set the timestamp."""

    partition: int
    offset: int
    timestamp_ms: int
    is_append_time: bool = False
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of key, value and headers."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers
