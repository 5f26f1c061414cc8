"""top: shows a cluster live on a terminal: traffic, lag, partitions with problems, slow requests and brokers.

Kafka has no such tool. For any cluster, the records per second are computed from offsets. Bytes, slow requests and
figures of the brokers come from the metrics endpoints of kcli's brokers, if these endpoints are open. If stdout is not
a terminal, or with --once, one update is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.cli.client_properties import load_properties
from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.metrics_access import metrics_access
from kcli.cli.output import Output, plain_row, warn
from kcli.cli.syntax.options import Command, CommandError, Kind, UsageError, flag, option, require
from kcli.cli.tools.top.rows import SORTS, rows_of
from kcli.cli.tools.top.sample import Filters, Sample, Sampler
from kcli.cli.tools.top.view import screen, seconds_text, tables, text_lines
from kcli.cli.topic_filter import topic_filter
from kcli.client.config import ClientConfigError, parse_addresses
from kcli.command.examples import FAILURE, Example
from kcli.errors import KafkaError, ProtocolError
from kcli.model.addresses import Address

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# The time-out of a call. The default of admin calls, a minute, is too long for a live display.
CALL_MAX_MS = 5_000
AGE_SECONDS = 1.0
# Figures that are older than the interval by this time are old, and are drawn pale.
OLD_SECONDS = 3.0
INTERVAL_MIN_S, INTERVAL_MAX_S = 0.2, 3600.0
HELP = "q quit   s sort   + slower   - faster"
# The types of terminals that cannot move the cursor.
_DUMB = ("", "dumb", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions(ClusterOptions):
    interval: float = option("Seconds between two updates.", Kind.DOUBLE, metavar="seconds", default=2.0)
    once: bool = flag("Print one update and exit. This is the default if the output is not a terminal.")
    sort: str = option(
        "The column to sort by. The largest value comes first. The keys messages, in, out and records sort "
        "the topics. The keys lag, seconds and consumed sort the groups. The key name sorts topics and "
        "groups by their names.",
        metavar="key",
        default="messages",
        choices=SORTS,
    )
    topic: str | None = option("Show only topics that match this regular expression.", metavar="topic")
    group: str | None = option("Show only groups that match this regular expression.", metavar="group")
    metrics: str | None = option(
        "The metrics endpoints, as host:port,host:port. Default: the endpoints that the brokers report.",
        metavar="host:port",
    )
    metrics_config: str | None = option(
        "A properties file with the user and the password for the metrics endpoints (kcli.metrics.user and "
        "kcli.metrics.password). For endpoints with TLS, the file also contains kcli.metrics.protocol=HTTPS and ssl.* "
        "settings.",
        metavar="property file",
    )


async def run(options: TopOptions, output: Output) -> None:
    """Shows the cluster live, or prints one update."""
    require(options, "bootstrap-server")
    if not INTERVAL_MIN_S <= options.interval <= INTERVAL_MAX_S:
        raise UsageError(
            f"--interval {options.interval:g}: expected {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:g} seconds"
        )
    filters = _filters(options)
    options = replace(options, timeout=options.timeout or CALL_MAX_MS)
    is_live = (
        not options.once
        and output.is_text
        and sys.stdout.isatty()
        and os.environ.get("TERM", "") not in _DUMB
    )
    async with admin(options, client_id="kcli-top") as client:
        sampler = Sampler(client, filters)
        if is_live:
            await Display(sampler, options).run()
        else:
            await _print_once(sampler, options, output)


def _filters(options: TopOptions) -> Filters:
    try:
        topic = topic_filter(options.topic) if options.topic else _all
        group = topic_filter(options.group) if options.group else _all
    except ValueError as error:
        raise CommandError(str(error)) from error
    metrics: tuple[Address, ...] = ()
    if options.metrics:
        try:
            metrics = tuple(parse_addresses(options.metrics))
        except ClientConfigError as error:
            raise CommandError(f"--metrics takes host:port,host:port: {error}") from error
    return Filters(topic, group, metrics, metrics_access(load_properties(options.metrics_config)))


def _all(_name: str) -> bool:
    return True


async def _print_once(sampler: Sampler, options: TopOptions, output: Output) -> None:
    """Takes two samples, because rates need two, and prints the tables once."""
    before = await sampler.take()
    await asyncio.sleep(options.interval)
    now = await sampler.take()
    for error in now.errors:
        warn(error)
    first = True
    for table in tables(rows_of(before, now, options.sort), now.time_ms):
        if not table.rows and not table.keeps_room:
            continue
        header, *lines = text_lines(table)
        output.say(f"{'' if first else chr(10)}{table.title}\n{header}")
        first = False
        for row, line in zip(table.rows, lines, strict=True):
            output.row({"table": table.kind, **plain_row(row)}, line)


class Display:
    """The live view. The view ends with q, Ctrl-C or a closed terminal, and restores the terminal."""

    def __init__(self, sampler: Sampler, options: TopOptions) -> None:
        self._sampler = sampler
        self._servers = options.bootstrap_server or ""
        self._interval = options.interval
        self._sort = options.sort
        self._before: Sample | None = None
        self._now: Sample | None = None
        self._trouble = ""
        self._wake = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console()
        # Warnings would destroy the display. They are not needed, because the display shows the same errors.
        logging.disable(logging.WARNING)
        sampling = asyncio.get_running_loop().create_task(self._sample(), name="top")
        try:
            with (
                _signals(self._end, self._wake.set),
                _keys(self._key, self._end),
                Live(console=console, screen=True, auto_refresh=False) as live,
            ):
                while not self._is_over:
                    live.update(self._picture(console), refresh=True)
                    # The age of the figures is drawn again, although no new figures have come.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(AGE_SECONDS):
                            await self._wake.wait()
                    self._wake.clear()
                    if sampling.done():
                        sampling.result()  # the task ends only with an error, which this line raises
        finally:
            sampling.cancel()
            logging.disable(logging.NOTSET)
            await asyncio.gather(sampling, return_exceptions=True)

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                try:
                    sample = await self._sampler.take()
                    self._before, self._now, self._trouble = self._now, sample, ""
                except (KafkaError, ProtocolError) as error:
                    self._trouble = f"{self._servers}: {error}"
                self._wake.set()
                await asyncio.sleep(max(began + self._interval - loop.time(), INTERVAL_MIN_S))
        finally:
            self._wake.set()

    def _picture(self, console: Console) -> RenderableType:
        size = console.size
        errors = [self._trouble] if self._trouble else []
        age_s = 0.0 if self._now is None else time.monotonic() - self._now.at
        is_old = age_s > self._interval + OLD_SECONDS
        shown = []
        head = f"kcli top   {self._servers}"
        if self._now is not None:
            now = self._now
            shown = tables(rows_of(self._before or now, now, self._sort), now.time_ms)
            errors += now.errors
            head = f"kcli top   {self._servers}   cluster {now.cluster_id}   {len(now.partitions)} partitions"
        if is_old:
            errors.append(f"No new figures since {seconds_text(int(age_s))}: these are old.")
        foot = f"{HELP}   every {self._interval:g} s   sorted by {self._sort}"
        return screen(
            shown, head=head, foot=foot, errors=errors, is_old=is_old, width=size.width, height=size.height
        )

    def _key(self, key: str) -> None:
        match key:
            case "q" | "Q":
                self._end()
            case "s":
                self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
            case "+":
                self._interval = min(self._interval * 2, INTERVAL_MAX_S)
            case "-":
                self._interval = max(self._interval / 2, INTERVAL_MIN_S)
        self._wake.set()

    def _end(self) -> None:
        self._is_over = True
        self._wake.set()


@contextlib.contextmanager
def _signals(end: Callable[[], None], resized: Callable[[], None]) -> Iterator[None]:
    """Ends the display after Ctrl-C, SIGTERM and a closed terminal. Redraws the display when the size of the terminal
    has changed."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: end, signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGWINCH: resized}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _keys(pressed: Callable[[str], None], closed: Callable[[], None]) -> Iterator[None]:
    """Reads keys one by one, without echo. Ctrl-Z is off, because it would leave the display on the terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    mode[6][termios.VSUSP] = b"\0"

    def read() -> None:
        try:
            data = os.read(terminal, 64)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(terminal)
            closed()
        elif not data.startswith(b"\x1b"):  # an arrow key sends an escape sequence, which is not a command
            for key in data.decode("ascii", "replace"):
                pressed(key)

    loop = asyncio.get_running_loop()
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        with contextlib.suppress(termios.error):  # the terminal may be closed already
            termios.tcsetattr(terminal, termios.TCSANOW, before)


command = Command(
    name="top",
    description="Watch throughput, lag, partitions, slow requests and brokers.",
    options=TopOptions,
    run=run,
    examples=(
        Example(
            "Watch a cluster until you press q:",
            "kcli top --bootstrap-server localhost:9092",
        ),
        Example(
            "Print traffic, lag and problems once, one JSON object per line:",
            "kcli top --bootstrap-server localhost:9092 --once --output json",
        ),
    ),
    exit_status=(
        (0, "You ended the live display with q, Ctrl-C or SIGTERM. With --once: the update was printed."),
        FAILURE,
        (130, "With --once: Ctrl-C ended the command before the update was printed."),
    ),
)
