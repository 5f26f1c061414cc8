"""What the console tools take beyond Kafka's: moments, filters, envelopes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kcli.cli import main, moment, running
from kcli.cli.syntax import jopt
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.tools.console import envelope
from kcli.cli.tools.console.consumer import ConsoleConsumerOptions
from kcli.cli.tools.console.formatters import tsv_line
from kcli.cli.tools.console.printer import Printer
from kcli.cli.tools.console.record_filter import record_filter
from kcli.rdkafka.log import logger

NOW_MS = 1_800_000_000_000

NOT_A_PATTERN = (
    "--include a(: not a regular expression: Unclosed group near index 2 of the regular expression a("
)
BY_DURATION = (
    "auto.offset.reset=by_duration:pt1h: librdkafka knows no durations; console-consumer has --from-time, and "
    "consumer-groups --reset-offsets --by-duration"
)
NOT_A_NUMBER = (
    "org.apache.kafka.common.config.ConfigException: Invalid value soon for configuration linger.ms: Not a number of "
    "type LONG"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("now", NOW_MS),
        ("10m", NOW_MS - 600_000),
        ("10m ago", NOW_MS - 600_000),
        ("1h30m ago", NOW_MS - 5_400_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("2d 3s", NOW_MS - 172_803_000),
        ("250ms", NOW_MS - 250),
        ("PT10M", NOW_MS - 600_000),
        ("2026-05-01", int(datetime(2026, 5, 1, tzinfo=UTC).timestamp() * 1000)),
        ("2026-05-01T12:00:00.250Z", int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000) + 250),
        ("2026-05-01T14:00:00+02:00", int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000)),
        ("2026-05-01 12:00", int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000)),
        ("9999w ago", 0),
        (f"{'9' * 400}w", 0),
        (f"{'9' * 400}ms ago", 0),
        ("1960-01-01", 0),
    ],
)
def test_a_moment_is_a_date_a_duration_or_a_number(text: str, expected: int) -> None:
    assert moment.epoch_ms(text, NOW_MS) == expected


@pytest.mark.parametrize(
    "text", ["", "ago", "10", "tomorrow", "10x", "-5m", "2026-13-01", "99999999999999999999", "P"]
)
def test_invalid_moments_are_refused(text: str) -> None:
    if text == "10":
        assert moment.epoch_ms(text, NOW_MS) == 10
        return
    with pytest.raises(ValueError):
        moment.epoch_ms(text, NOW_MS)


class Message:
    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        self.parts = {"key": key, "value": value, "headers": headers}

    def __getattr__(self, name: str) -> Any:
        return lambda: self.parts[name]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["key=a"], [0]),
        (["key!=a"], [1, 2, 3]),
        (["key~^a"], [0, 1]),
        (["key!~^a"], [2, 3]),
        (["key="], [3]),
        (["value~error|fatal"], [0, 2]),
        (["value~error|fatal", "key=a"], [0]),
        (["header.h=2"], [1]),
        (["header.h~."], [1]),
        (["header.x=a=b"], [2]),
        (["value~\\udcff"], [1]),
        (["value~^..$"], [1]),
    ],
)
def test_filters_select_records_by_key_value_and_header(rules: list[str], expected: list[int]) -> None:
    messages = [
        Message(b"a", b"an error"),
        Message(b"ab", b"\xff\xfe", [("h", b"1"), ("h", b"2"), ("h", None)]),
        Message(None, b"fatal", [("x", b"a=b")]),
        Message(b"", None),
    ]
    matches = record_filter(rules)
    assert matches is not None
    assert [number for number, message in enumerate(messages) if matches(message)] == expected


def test_invalid_filters_are_refused() -> None:
    assert record_filter(()) is None
    for text in ("", "key", "topic=a", "key>1", "header.=x"):
        with pytest.raises(UsageError, match="expected key=TEXT"):
            record_filter([text])
    with pytest.raises(UsageError, match=r"not a regular expression: missing \)"):
        record_filter(["key~("])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON: "),
        (b"\xff", "not UTF-8 (byte 1)"),
        (b"[]", "expected an object"),
        (b'{"vlaue": "x"}', 'unknown field "vlaue", known are topic, partition, offset, timestamp, '),
        (b'{"key": "x"}', 'the field "value" is missing; null there makes a tombstone'),
        (b'{"value": 1}', '"value" must be text, null, or {"base64": "…"}'),
        (b'{"value": {"base64": "%"}}', '"value" is not base64: '),
        (b'{"value": "\\ud800"}', '"value" has half a surrogate pair'),
        (b'{"value": "", "headers": [["a"]]}', 'each of "headers" must be a pair of a name and a value'),
        (b'{"value": "", "headers": 1}', '"headers" must be a list of pairs'),
        (b'{"value": "", "partition": -1}', '"partition" must be a whole number from 0 to 2147483647, or null'),
        (b'{"value": "", "timestamp": true}', '"timestamp" must be a whole number'),
        (b"[" * 100_000, ""),
    ],
)  # fmt: skip
def test_lines_that_are_no_records(line: bytes, complaint: str) -> None:
    with pytest.raises(CommandError) as caught:
        envelope.read(line, 3)
    assert str(caught.value).startswith(f"standard input, line 3: {complaint}")


def test_envelopes_written_by_hand() -> None:
    assert envelope.read(b"  ", 1) is None
    record = envelope.read(b'{"value": "v", "headers": {"a": "1", "b": null}}', 1)
    assert record == envelope.JsonRecord(key=None, value=b"v", headers=[("a", b"1"), ("b", None)])


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--from-time", "10m", "--from-beginning"],
         "Options from-time and from-beginning cannot be specified together."),
        (["--last", "1", "--from-time", "10m"], "Options from-time and last cannot be specified together."),
        (["--last", "1", "--partition", "0", "--offset", "3"], "Options last and offset cannot be specified together."),
        (["--last", "0"], "--last must be at least 1"),
        (["--from-time", "soon"], "--from-time: 'soon' is not a time: expected a date"),
        (["--last", "1", "--group", "g"], "--from-time and --last read without a group"),
        (["--filter", "topic=x"], "--filter 'topic=x': expected key=TEXT"),
        (["--filter", "key~("], "--filter 'key~(': not a regular expression"),
    ],
)  # fmt: skip
def test_consumer_options_that_do_not_go_together(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    command = TOOLS["console-consumer"].load()
    assert running.run_command(command, ["--bootstrap-server", "127.0.0.1:1", "--topic", "t", *words]) == 1
    assert capsys.readouterr().err.startswith(complaint)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--include", "a("], NOT_A_PATTERN),
        (["--topic", "t", "--consumer-property", "auto.offset.reset=by_duration:PT1H"], BY_DURATION),
        (["--topic", "t", "--consumer-property", "linger.ms=soon"], NOT_A_NUMBER),
    ],
)  # fmt: skip
def test_errors_of_the_client_become_messages_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    command = TOOLS["console-consumer"].load()
    assert running.run_command(command, ["--bootstrap-server", "127.0.0.1:1", *words]) == 1
    assert capsys.readouterr().err == f"{complaint}\n"


@pytest.mark.usefixtures("kafkas_script")
def test_producer_options_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    command = TOOLS["console-producer"].load()
    base = ["--bootstrap-server", "127.0.0.1:1", "--topic", "t"]
    assert running.run_command(command, [*base, "--input", "json", "--property", "parse.key=true"]) == 1
    assert capsys.readouterr().err.startswith("--property is for lines of text")
    assert running.run_command(command, [*base, "--keep-partition"]) == 1
    assert capsys.readouterr().err.startswith("--keep-partition needs --input json")
    assert jopt.parse(command, [*base, "--input", "json"]).has("input")


def test_errors_of_librdkafka_are_printed_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    from confluent_kafka import KafkaError

    logger().handlers.clear()  # its stream is the stderr of now
    options = ConsoleConsumerOptions(bootstrap_server="h:1", topic="t")
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, "no offset")
    assert Printer(options, tsv_line, None)._is_last(error)
    assert "terminating consumer process: no offset (" in capsys.readouterr().err
    logger().handlers.clear()


@pytest.mark.parametrize("topic", ["a b", "", "..", "x" * 250])
def test_a_topic_that_cannot_be_is_not_waited_for(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    logger().handlers.clear()  # its stream is the stderr of now
    words = ["console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", topic]
    assert main.run(words) == 0
    said = capsys.readouterr().err
    assert "ERROR Error processing message, terminating consumer process: " in said
    assert f"InvalidTopicException: Invalid topics: [{topic}]" in said
    assert said.endswith("Processed a total of 0 messages\n")
    logger().handlers.clear()


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (
            "console-consumer --property prnt.key=true",
            "WARN --property: ignored the unknown property prnt.key. Did you mean print.key?",
        ),
        (
            "console-consumer --formatter-property key.deserialiser=a",
            "WARN --formatter-property: ignored the unknown property key.deserialiser. Did you mean key.deserializer?",
        ),
        ("console-consumer --property key.deserializer.encoding=a --property print.key=true", ""),
        (
            "console-producer --property parse.kye=true",
            "WARN --property: ignored the unknown property parse.kye. Did you mean parse.key?",
        ),
    ],
)
def test_an_unknown_property_is_warned_about_but_not_by_kafkas_script(
    words: str, warning: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *rest = words.split()
    # The missing file of client settings ends the command after the warning.
    file = "--consumer.config" if name == "console-consumer" else "--producer.config"
    main.run([name, "--bootstrap-server", "h:1", "--topic", "t", *rest, file, "no/such"])
    said = capsys.readouterr().err
    assert (warning in said) if warning else ("WARN" not in said)
    monkeypatch.setenv("KCLI_SCRIPT", f"kafka-{name}.sh")
    main.run([name, "--bootstrap-server", "h:1", "--topic", "t", *rest, file, "no/such"])
    assert "WARN" not in capsys.readouterr().err
