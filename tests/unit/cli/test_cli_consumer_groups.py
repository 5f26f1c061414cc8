"""kafka-consumer-groups without a cluster: wrong command lines, moments, durations, CSV, regular expressions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kcli.cli.java.date_times import epoch_ms_of, milliseconds_of
from kcli.cli.main import run
from kcli.cli.output import Output
from kcli.cli.syntax.options import UsageError
from kcli.cli.tools.consumer_groups.delete import delete_groups
from kcli.cli.tools.consumer_groups.failures import ExecutionError
from kcli.cli.tools.consumer_groups.groups import STATES
from kcli.cli.tools.consumer_groups.options import ACTIONS, DRY_RUN_WARNING, ConsumerGroupsOptions
from kcli.cli.tools.consumer_groups.plan import NewOffset, csv_line, read_plan
from kcli.cli.tools.consumer_groups.regex import verdict
from kcli.cli.tools.consumer_groups.reset import named_partitions
from kcli.errors import GroupNotEmptyException
from kcli.model.topic_partition import TopicPartition

B = "--bootstrap-server 127.0.0.1:9 "


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            B,
            "Command must include exactly one action: " + ", ".join(f"--{action}" for action in ACTIONS),
        ),
        (
            B + "--list --delete --group g",
            'Option "[group]" can\'t be used with option "[list]"',
        ),
        ("--list", 'Missing required argument "[bootstrap-server]"'),
        (B + "--describe", "Option [describe] takes one of these options: [all-groups], [group]"),
        (B + "--delete", "Option [delete] takes one of these options: [all-groups], [group]"),
        (
            B + "--delete --group g --topic t",
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        ),
        (
            B + "--delete-offsets --group g",
            "Option [delete-offsets] takes the following options: [topic], [group]",
        ),
        (
            B + "--describe --group g --members --state",
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (B + "--describe --group g --state Empty", "Option [describe] does not take a value for [state]"),
        (
            B + "--describe --group g --all-groups",
            'Option "[group]" can\'t be used with option "[all-groups]"',
        ),
        (B + "--describe --group g --topic t", 'Option "[topic]" can\'t be used with option "[describe]"'),
        (
            B + "--reset-offsets --group g --dry-run --execute",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            B + "--reset-offsets --group g --dry-run --to-earliest --to-offset 4",
            'Option "[to-offset]" can\'t be used with option "[to-earliest]"',
        ),
        (
            B + "--list --state Bogus",
            f"Invalid state list 'Bogus'. Valid states are: {', '.join(STATES)}",
        ),
        (B + "--list --type share", "Invalid types list 'share'. Valid types are: Consumer, Classic"),
    ],
)
def test_invalid_command_lines_are_refused_in_kafkas_words(
    words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["consumer-groups", *words.split()]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == complaint
    assert "Option" in err.splitlines()[1], "the usage table follows"


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "exception"),
    [
        (B + "--bogus", "UnrecognizedOptionException: bogus is not a recognized option"),
        (B + "--group", "OptionMissingRequiredArgumentException: Option group requires an argument"),
        (
            B + "--list --members",
            "UnavailableOptionException: Option(s) [members] are unavailable given other options on the command line",
        ),
    ],
)
def test_the_parser_refuses_wrong_options_in_the_words_of_joptsimple(
    words: str, exception: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["consumer-groups", *words.split()]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f'Exception in thread "main" joptsimple.{exception}'


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--bootstrap-server x:9 --command-config no/such", "java.nio.file.NoSuchFileException: no/such"),
        ("--bootstrap-server x", "Failed to create new KafkaAdminClient"),
    ],
)
def test_without_a_client_it_still_ends_with_0(
    words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka's tool tells every failure after its command line was understood in one way."""
    assert run(["consumer-groups", "--list", *words.split()]) == 0
    assert capsys.readouterr().out == f"\nError: Executing consumer group command failed due to {reason}\n"


@pytest.mark.usefixtures("kafkas_script")
def test_offsets_are_deleted_of_one_group_only(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--bootstrap-server 127.0.0.1:9 --delete-offsets --group a --group b --topic t"
    assert run(["consumer-groups", *words.split()]) == 0
    assert "Found multiple arguments for option group, but you asked for only one" in capsys.readouterr().out


@pytest.mark.usefixtures("kafkas_script")
def test_a_reset_without_execute_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["consumer-groups", *B.split(), "--reset-offsets"]) == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        DRY_RUN_WARNING,
        "Option [reset-offsets] takes one of these options: [all-groups], [group]",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.250Z", 1250),
        ("1970-01-01T02:00:00.000+02:00", 0),
        ("1970-01-01T00:00:00.000-0130", 90 * 60_000),
        ("1970-01-01T01:00:00.007+01", 7),
        ("2026-11-21T09:17:45.978", 1795252665978),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_moment_is_read_in_its_time_zone(text: str, value: int) -> None:
    assert epoch_ms_of(text) == value


@pytest.mark.parametrize("text", ["garbage", "2026-11-21", "2026-11-21 09:17:45.978"])
def test_a_moment_without_a_time(text: str) -> None:
    with pytest.raises(ValueError, match="It does not contain a 'T' according to ISO8601 format"):
        epoch_ms_of(text)


@pytest.mark.parametrize("text", ["2026-11-21T09:17", "2026-02-30T00:00:00.000", "2026-11-21T09:17:45.978+x"])
def test_an_invalid_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Unparseable date"):
        epoch_ms_of(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("P2DT3H4M5.006S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_006),
        ("pt1h", 3_600_000),
        ("-PT1M", -60_000),
        ("PT-1M", -60_000),
        ("PT-1.5S", -1_500),
        ("PT1.S", 1_000),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, value: int) -> None:
    assert milliseconds_of(text) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "nonsense", "P1Y"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Text cannot be parsed to a Duration"):
        milliseconds_of(text)


def test_topics_may_name_their_partitions() -> None:
    assert named_partitions(["a", "b:0,2", "c:1"]) == ([("b", 0), ("b", 2), ("c", 1)], ["a"])
    assert named_partitions(["b:0,2,"]) == ([("b", 0), ("b", 2)], [])
    for wrong in ("a:b:c", "a:", ":"):
        with pytest.raises(
            UsageError, match=f"Invalid topic arg '{wrong}', expected topic name and partitions"
        ):
            named_partitions([wrong])
    with pytest.raises(UsageError, match="Invalid partition 'x' specified in topic arg 'a:x''"):
        named_partitions(["a:x"])


def test_csv_fields_are_quoted_where_necessary() -> None:
    assert csv_line(NewOffset("g", "t.1-x_y", 3, 44), with_group=True) == "g,t.1-x_y,3,44"
    assert csv_line(NewOffset("g", "t", 3, 44), with_group=False) == "t,3,44"
    assert (
        csv_line(NewOffset('a "b", c', "x" * 25, 0, 0), with_group=True) == f'"a ""b"", c","{"x" * 25}",0,0'
    )


def _plan(tmp_path: Path, text: str, only_group: str | None) -> dict[str, dict[TopicPartition, int]]:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    return read_plan(str(file), only_group)


def test_a_plan_names_offsets_by_group_and_partition(tmp_path: Path) -> None:
    assert _plan(tmp_path, "t,0,5\nu,1,6\n\n", "g") == {"g": {("t", 0): 5, ("u", 1): 6}}
    long = "g,t,0,5\nh,t,0,6\n"
    assert (
        _plan(tmp_path, long, "g") == _plan(tmp_path, long, None) == {"g": {("t", 0): 5}, "h": {("t", 0): 6}}
    )
    assert _plan(tmp_path, '"a,b",t,0,5\n', None) == {"a,b": {("t", 0): 5}}
    # What Kafka's reader makes of a line it cannot cut: a topic of that name, and nothing else.
    assert _plan(tmp_path, "r1;0;2\n", "g") == {"g": {("r1;0;2", 0): 0}}


@pytest.mark.parametrize("text", ["g,t,x,5\n", "g,t,0,x\n", "g,t,0,99999999999999999999\n", "g,t,0,1,2\n"])
def test_an_invalid_plan_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExecutionError):
        _plan(tmp_path, text, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"plan\.csv:1: No content"),
        ("g,t,0,5\n\ng,t,1,6\n", r"plan\.csv:2: No content"),
        ('"g,t,0,5\n', "Missing closing quote"),
        ('g,"t\nu",0,5\n', "Missing closing quote"),
        ('"g"x,t,0,5\n', "expected separator"),
        ("group,topic,partition,offset\ng,t,0,5\n", "Cannot deserialize value of type `int`"),
        ("g,t,0,1_0\n", "Cannot deserialize value of type `long`"),
        ("g,t,0,\u00a05\n", "Cannot deserialize value of type `long`"),
        ("g,t,0,5.0\n", "Cannot deserialize value of type `long`"),
    ],
)
def test_a_line_that_jackson_refuses_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ExecutionError, match=reason):
        _plan(tmp_path, text, None)


def test_a_negative_offset_is_refused_before_any_offset_is_planned(tmp_path: Path) -> None:
    for text in ("t,0,-1\n", "t,0,5\nt,1,-9223372036854775808\n"):
        with pytest.raises(UsageError, match="Invalid negative offset"):
            _plan(tmp_path, text, "g")


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("t,0,5\r\nt,1,6\r\n", {("t", 0): 5, ("t", 1): 6}),
        ("t,0,5\rt,1,6", {("t", 0): 5}),
        ('"t",0,"5"\n', {("t", 0): 5}),
        ('"t" ,0,5\n', {("t", 0): 5}),
        ("t, 0 , 5 \n", {("t", 0): 5}),
        (" t,0,5\n", {(" t", 0): 5}),
        ('a"b,0,5\n', {('a"b', 0): 5}),
        ('"a""b",0,5\n', {('a"b', 0): 5}),
        ("# t,0,5\n", {("# t", 0): 5}),
        ("\ufefft,0,5\n", {("\ufefft", 0): 5}),
        ("t\n", {("t", 0): 0}),
        ("t,+1,+5\n", {("t", 1): 5}),
        ("t,0,5\nt,0,7\n", {("t", 0): 7}),
    ],
)
def test_the_dialect_of_a_plan_is_that_of_jackson(
    tmp_path: Path, text: str, offsets: dict[tuple[str, int], int]
) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(text.encode())
    assert read_plan(str(file), "g") == {"g": offsets}


def test_exported_offsets_can_be_imported(tmp_path: Path) -> None:
    rows = [NewOffset("a group, quoted", "t", 0, 5), NewOffset("g", "a" * 30, 7, 2**40)]
    text = "\n".join(csv_line(row, with_group=True) for row in rows) + "\n\n"
    assert _plan(tmp_path, text, None) == {
        row.group: {(row.topic, row.partition): row.new_offset} for row in rows
    }


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a.*b", None),
        ("a(b", "missing closing )"),
        ("a[b", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a\\", "trailing backslash at end of expression"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(a)\\1", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        (r"\pN", None),
        ("x*+", "invalid nested repetition operator"),
        ("a{2000}", "invalid repeat count"),
        ("(?P<n", "invalid named capture"),
        ("a)b", "regexp/syntax: internal error"),
        ("", None),
    ],
)
def test_invalid_regular_expressions_are_refused_with_the_reason(
    pattern: str, reason: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "valid" if reason is None else f"invalid: {reason}"
    expected = f"The regular expression `{pattern}` is {said}."
    assert verdict(pattern) == expected
    assert run(["consumer-groups", "--validate-regex", pattern]) == 0
    assert capsys.readouterr().out == expected + "\n"


def test_a_failed_action_ends_with_1_unless_kafkas_script_was_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["consumer-groups", "--bootstrap-server", "x:9", "--list", "--command-config", "no/such"]
    assert run(words) == 1
    assert "NoSuchFileException: no/such" in capsys.readouterr().out
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-consumer-groups.sh")
    assert run(words) == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_group_that_is_not_deleted_is_a_failure_in_each_format(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = SimpleNamespace(delete_groups=AsyncMock(return_value={"g": GroupNotEmptyException()}))
    options = ConsumerGroupsOptions(bootstrap_server="127.0.0.1:9", delete=True, group=("g",), yes=True)
    output = Output(form)
    asyncio.run(delete_groups(options, client, output))
    assert output.is_failed
    assert "GroupNotEmptyException" in capsys.readouterr().out
