"""Writes librdkafka's log to stderr, in the format of Kafka's tools."""

from __future__ import annotations

import logging
import re
import sys

from kcli.model.java_text import parse_int
from kcli.protocol.wire.peer import speaks_tls
from kcli.runtime.log_text import log_line

_WRONG_SIZE = re.compile(r"Invalid response size (-?\d+)", re.ASCII)
# A repeated line is logged once in this time. librdkafka logs about 20 failed connection attempts in a second. Java
# logs one.
REPEAT_S = 1.0
_ELAPSED = re.compile(r"\(after \d+ms in state \w+.*?\)", re.ASCII)
_FORMAT = "[%(asctime)s,%(msecs)03d] %(levelname)s %(message)s (kcli.rdkafka)"


class Repeats(logging.Filter):
    """A filter of the log that lets the same line pass at most once in REPEAT_S seconds.

    Lines that differ only in the duration of an attempt count as the same line.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = _ELAPSED.sub("", record.getMessage())
        if record.created - self._logged.get(line, 0.0) < REPEAT_S:
            return False
        # Older lines are forgotten, so that the memory of a long-running process stays small.
        self._logged = {
            old: logged for old, logged in self._logged.items() if record.created - logged < REPEAT_S
        }
        self._logged[line] = record.created
        return True


def warn_as_java(line: str, class_name: str) -> None:
    """Writes a warning of Java's client to stderr, in the format of Kafka's tools."""
    print(log_line("WARN", line, class_name), file=sys.stderr)


def logger() -> logging.Logger:
    """Returns the logger for librdkafka. It writes warnings and errors to stderr, in the format of Kafka's tools."""
    log = logging.getLogger("kcli.rdkafka")
    if not log.filters:
        for rule in (_name_peer, _in_our_words, Repeats()):
            log.addFilter(rule)
    if not log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        formatter = logging.Formatter(_FORMAT, "%Y-%m-%d %H:%M:%S")
        handler.setFormatter(formatter)
        log.addHandler(handler)
        log.setLevel(logging.WARNING)
        log.propagate = False
        logging.addLevelName(logging.WARNING, "WARN")
        logging.addLevelName(logging.CRITICAL, "FATAL")
    return log


_LINE = re.compile(r"[A-Z_]+ \[[^\]]*\](?: \[thrd:[^\]]*\])?: (?P<text>.*)", re.S)
"""A line of librdkafka: FACILITY [client] [thrd:thread]: text."""
_BROKER = re.compile(r"(?:[a-z_]+://)?(?P<address>\S+:\d+)/(?:\d+|bootstrap): (?P<text>.*)", re.S | re.ASCII)
_CONNECT = re.compile(r"Connect to ipv[46]#(?P<address>\S+) failed: (?P<reason>.*?)(?: \(after .*)?", re.S)


def _in_our_words(record: logging.LogRecord) -> bool:
    """Rewrites a line of librdkafka: removes its facility, client and thread, and names a failed connection as Java's
    client does."""
    match = _LINE.fullmatch(record.getMessage())
    if match is None:
        return True
    text, address = match["text"], ""
    if (broker := _BROKER.fullmatch(text)) is not None:
        text, address = broker["text"], broker["address"]
    if (failed := _CONNECT.fullmatch(text)) is not None:
        text = (
            f"Connection to {address or failed['address']} could not be established ({failed['reason']}). "
            "Node may not be available."
        )
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    elif address and address not in text:
        text = f"{address}: {text}"
    record.msg, record.args = text, ()
    return True


def _name_peer(record: logging.LogRecord) -> bool:
    """Adds the protocol of the peer to the message about an invalid response size.

    A port that speaks HTTP or TLS causes this error, because librdkafka reads the first bytes as the size of a
    response.
    """
    match = _WRONG_SIZE.search(record.getMessage())
    if match is not None:
        first = parse_int(match[1]).to_bytes(4, "big", signed=True)
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
