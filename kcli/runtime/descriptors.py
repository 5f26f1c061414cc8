"""The descriptors of this process: the limit on their number, and a reserve that clients cannot use.

The operating system gives a new descriptor the lowest free number. So a descriptor with the number 900 shows that at
least 900 others are open, and no other count is necessary.

The reserve has two halves. Connections of clients stop below the whole reserve. Kept log files, and all accepted
sockets, stop below its second half. So the second half is always free for other work, such as checkpoints, links to
other nodes and imports.
"""

from __future__ import annotations

import errno
import resource

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
"""The errors that report too few descriptors or too little memory. No device has failed, and a later call may
succeed."""

SHORTAGE_PAUSE_S = 0.5
"""The pause before work is repeated that failed because of a shortage. Other work ends and closes files meanwhile."""

RESERVE_SHARE = 8
"""The reserve is the limit divided by this number. Usual limits are 1024 and more, so the reserve is 128 and more."""
RESERVE_MIN = 32
"""The smallest reserve. A checkpoint, a flush and a link to another node together need fewer descriptors."""
RESERVE_MAX = 1024
"""The largest reserve. A process with a limit of a million does not need more."""

MAX_WITHOUT_LIMIT = 1 << 20
"""The limit that is set if the operating system names no highest value."""


def is_shortage(error: BaseException) -> bool:
    """Whether the error reports too few descriptors or too little memory."""
    return isinstance(error, OSError) and error.errno in SHORTAGES


def raise_limit() -> tuple[int, int]:
    """Raises the soft limit of open descriptors to the hard limit, as Java does. Returns the limit before and the limit
    now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_WITHOUT_LIMIT if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= limit:
        return soft, soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):  # macOS has another, lower maximum
        return soft, soft
    return soft, limit


def reserved_count(limit: int) -> int:
    """The number of descriptors that connections of clients cannot use."""
    return max(RESERVE_MIN, min(limit // RESERVE_SHARE, RESERVE_MAX))


def is_reserved(descriptor: int) -> bool:
    """Whether a new descriptor is in the reserve, so that no client's connection may keep it."""
    limit = _limit()
    return descriptor >= limit - reserved_count(limit)


def is_last_reserved(descriptor: int) -> bool:
    """Whether a new descriptor is in the second half of the reserve, so that no kept file and no accepted socket may
    keep it."""
    limit = _limit()
    return descriptor >= limit - reserved_count(limit) // 2


def _limit() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_WITHOUT_LIMIT if soft == resource.RLIM_INFINITY else soft
