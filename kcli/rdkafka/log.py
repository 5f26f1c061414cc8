"""librdkafka's log on stderr, in the pattern of Kafka's tools."""

from __future__ import annotations

import logging
import re
import sys

from kcli.protocol.wire.peer import speaks_tls

_WRONG_SIZE = re.compile(r"Invalid response size (-?\d+)")
# librdkafka logs every failed attempt to connect, some twenty a second; Java's back-off logs one a second.
REPEAT_S = 1.0
_ELAPSED = re.compile(r"\(after \d+ms in state \w+.*?\)")
_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (kcli.rdkafka)"


class Repeats(logging.Filter):
    """Lets a line through once in REPEAT_S; how long the attempt took does not make another line of it."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = _ELAPSED.sub("", record.getMessage())
        if record.created - self._logged.get(line, 0.0) < REPEAT_S:
            return False
        # Forget older lines, so that the memory of a process that runs for weeks stays small.
        self._logged = {
            old: logged for old, logged in self._logged.items() if record.created - logged < REPEAT_S
        }
        self._logged[line] = record.created
        return True


def logger() -> logging.Logger:
    """The logger for librdkafka: warnings and errors on stderr, in the pattern of Kafka's tools."""
    found = logging.getLogger("kcli.rdkafka")
    if not found.handlers:
        handler = logging.StreamHandler(sys.stderr)
        formatter = logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S")
        handler.setFormatter(formatter)
        handler.addFilter(_name_peer)
        handler.addFilter(Repeats())
        found.addHandler(handler)
        found.setLevel(logging.WARNING)
        found.propagate = False
        logging.addLevelName(logging.WARNING, "WARN")
    return found


def _name_peer(record: logging.LogRecord) -> bool:
    """Names the protocol of a port whose first bytes librdkafka took for the length of a response."""
    found = _WRONG_SIZE.search(record.getMessage())
    if found is not None:
        first = int(found[1]).to_bytes(4, "big", signed=True)
        if first == b"HTTP":
            record.msg, record.args = (
                f"{record.getMessage()}: the port speaks HTTP, it is not a Kafka listener",
                (),
            )
        elif speaks_tls(first):
            record.msg, record.args = (
                f"{record.getMessage()}: the port speaks TLS, set security.protocol=SSL",
                (),
            )
    return True
