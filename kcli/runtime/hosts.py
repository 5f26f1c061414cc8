"""Names of hosts that the operating system cannot look up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class InvalidHost(OSError):
    """Raised if a text cannot be the name of a host, such as `a..b`."""


@contextmanager
def host_is_checked(host: str | None) -> Iterator[None]:
    """Raises InvalidHost in place of the UnicodeError with which Python refuses a text that cannot be a host."""
    try:
        yield
    except UnicodeError:
        raise InvalidHost(f"{host} cannot be the name of a host") from None
