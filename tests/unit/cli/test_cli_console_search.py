"""The options of the console consumer that read a topic as the web console does."""

from __future__ import annotations

import pytest

from kcli.cli.main import run
from kcli.cli.tools.console.consumer import ConsoleConsumerOptions
from kcli.cli.tools.console.search import _start
from kcli.console.messages.positions import Origin, Start

TOPIC = ["console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--where", "value ="], "--where"),
        (["--partitions", "0,1_0"], "--partitions 0,1_0: expected numbers with commas, such as 0,3"),
        (["--by-time", "--offset", "latest"], "--offset latest cannot be used with --by-time"),
        (["--partition", "0", "--partitions", "1"], "partition and partitions cannot be specified together"),
        (["--by-time", "--group", "g"], "--group cannot be used with --by-time"),
        (["--by-time", "--timeout-ms", "5"], "--timeout-ms cannot be used with --by-time"),
        (["--where", "value == null", "--filter", "key=a"], "--filter cannot be used with --by-time"),
    ],
)
def test_an_option_that_does_not_fit_is_refused_before_the_tool_connects(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*TOPIC, *words]) == 1
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("offset", "start"),
    [
        (None, Start(Origin.EARLIEST)),
        ("Earliest", Start(Origin.EARLIEST)),
        ("2", Start(Origin.OFFSET, 2)),
        ("+2", Start(Origin.OFFSET, 2)),
        ("\u0662", Start(Origin.OFFSET, 2)),
    ],
)
def test_an_offset_is_read_as_without_by_time(offset: str | None, start: Start) -> None:
    assert _start(ConsoleConsumerOptions(topic="t", by_time=True, offset=offset)) == start
