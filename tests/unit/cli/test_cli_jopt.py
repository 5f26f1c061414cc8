from __future__ import annotations

from dataclasses import dataclass

import pytest

from kcli.cli.main import run
from kcli.cli.syntax import jopt
from kcli.cli.syntax.options import (
    Command,
    CommonOptions,
    HelpRequested,
    Kind,
    ParseError,
    VersionRequested,
    flag,
    java_split,
    option,
    separated,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(CommonOptions):
    topic: str | None = option("A topic.", metavar="topic")
    partitions: int | None = option("How many.", Kind.INTEGER)
    config: tuple[str, ...] = option("A setting.", repeatable=True)
    list: bool = flag("List.")
    codec: str | None = option("A codec.", optional_argument=True, bare_value="gzip")
    wait: int | None = option("Wait.", Kind.INTEGER, optional_argument=True, bare_value=10)
    producer_config: str | None = option("A file.", name="producer.config")


COMMAND = Command(name="sample", description="This tool is a sample.", options=Sample, run=lambda *_: 0)


def parsed(*argv: str) -> Sample:
    options = jopt.parse(COMMAND, list(argv))
    assert isinstance(options, Sample)
    return options


@pytest.mark.parametrize("words", [("--topic", "a"), ("--topic=a",), ("-topic", "a"), ("-topic=a",)])
def test_every_way_to_write_a_long_option(words: tuple[str, ...]) -> None:
    options = parsed(*words)
    assert options.topic == "a"
    assert options.given == {"topic"}


def test_an_argument_may_look_like_an_option() -> None:
    assert parsed("--topic", "--list").topic == "--list"
    assert parsed("--partitions", "-1").partitions == -1


def test_an_empty_inline_argument_takes_the_next_word() -> None:
    assert parsed("--topic=", "next").topic == "next"


def test_repeatable_options_keep_their_order() -> None:
    assert parsed("--config", "a=1", "--list", "--config=b=2").config == ("a=1", "b=2")


def test_an_optional_argument_is_not_taken_from_an_option() -> None:
    assert parsed("--codec", "--list").codec == "gzip"
    assert parsed("--codec", "zstd").codec == "zstd"
    assert parsed("--wait", "-1").wait == -1
    assert parsed("--wait", "--list").wait == 10


def test_left_over_words_pass() -> None:
    assert parsed("--list", "stray", "-", "--", "--topic").arguments == ("stray", "-", "--topic")


def test_a_name_with_a_dot() -> None:
    assert parsed("--producer.config", "f").producer_config == "f"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--bogus",), "bogus is not a recognized option"),
        (("-bogus",), "b is not a recognized option"),
        (("--topic",), "Option topic requires an argument"),
        (("--partitions", "abc"), "Cannot parse argument 'abc' of option partitions"),
        (("--partitions", "2147483648"), "Cannot parse argument '2147483648' of option partitions"),
        (
            ("--topic", "a", "--topic", "b"),
            "Found multiple arguments for option topic, but you asked for only one",
        ),
    ],
)
def test_errors_in_joptsimples_words(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(ParseError) as error:
        parsed(*argv)
    assert str(error.value) == message


def test_a_typing_error_is_answered_with_a_guess() -> None:
    with pytest.raises(ParseError) as error:
        parsed("--topc", "a")
    assert error.value.hint == "Did you mean --topic?"


def test_help_and_version_win() -> None:
    with pytest.raises(HelpRequested):
        parsed()
    with pytest.raises(HelpRequested):
        parsed("--topic", "a", "--help")
    with pytest.raises(VersionRequested):
        parsed("--version")


def test_the_table_is_sorted_and_80_columns_wide() -> None:
    lines = jopt.usage(COMMAND).splitlines()
    assert lines[0].split() == ["Option", "Description"]
    names = [line.split()[0] for line in lines[2:] if line.startswith("--")]
    assert names == sorted(names)
    assert "--partitions" in names and "--help" in names and "--output" in names
    assert max(map(len, lines)) <= jopt.WIDTH_COLUMNS


def test_required_options_are_marked() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Strict(CommonOptions):
        server: str = option("A server.", required=True)

    command = Command(name="strict", description="d", options=Strict, run=lambda *_: 0)
    assert "Option (* = required)" in jopt.usage(command)
    assert "* --server" in jopt.usage(command)
    with pytest.raises(ParseError, match=r"Missing required option\(s\) \[server\]"):
        jopt.parse(command, ["--output", "json"])


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a,b", ["a", "b"]), ("a,,", ["a"]), (",a", ["", "a"]), ("a,,b", ["a", "", "b"]), ("", [""]), (",", [])],
)
def test_java_drops_what_is_empty_at_the_end(text: str, parts: list[str]) -> None:
    assert java_split(text) == parts


def test_separated_values_may_come_in_several_options() -> None:
    assert separated(["a,,b", "", "c,"]) == ("a", "b", "", "c")
    assert separated([]) == ()


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (
            "consumer-groups --bootstrap-server 127.0.0.1:1 --list --timeout x",
            0,
            "\nError: Executing consumer group command failed due to Cannot parse argument 'x' of option timeout\n",
            "",
        ),
        (
            "topics --bootstrap-server 127.0.0.1:1 --list --topic a --topic b",
            1,
            (
                "Error while executing topic command : "
                "Found multiple arguments for option topic, but you asked for only one\n"
            ),
            "",
        ),
        (
            "topics --bootstrap-server a:1 --bootstrap-server b:1 --list",
            1,
            "",
            "Found multiple arguments for option bootstrap-server, but you asked for only one\n",
        ),
        (
            "reassign-partitions --bootstrap-server 127.0.0.1:1 --execute --throttle x",
            1,
            "Error: Cannot parse argument 'x' of option throttle\n\n",
            "",
        ),
        (
            "reassign-partitions --nonsense",
            1,
            "",
            'Exception in thread "main" joptsimple.UnrecognizedOptionException: nonsense is not a recognized option\n',
        ),
    ],
)
def test_each_tool_tells_what_cannot_be_parsed_in_its_way(
    words: str, code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """joptsimple converts a value when the tool asks for it: by then some tools tell it as any other failure."""
    assert run(words.split()) == code
    assert tuple(capsys.readouterr()) == (out, err)


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "java_class"),
    [
        (["--files"], "OptionMissingRequiredArgumentException"),
        (["--fles"], "UnrecognizedOptionException"),
        (["--deep-iteration"], "MissingRequiredOptionsException"),
        (["--files", "a", "--files", "b"], "MultipleArgumentsForOptionException"),
        (["--files", "a", "--max-bytes", "x"], "OptionArgumentConversionException"),
        (["--files", "a", "--max-bytes", "is not a recognized option"], "OptionArgumentConversionException"),
    ],
)
def test_an_error_is_reported_under_its_java_class(
    words: list[str], java_class: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dump-log", *words]) == 1
    first = capsys.readouterr().err.partition("\n")[0]
    assert first.startswith(f'Exception in thread "main" joptsimple.{java_class}: ')


@pytest.mark.usefixtures("kafkas_script")
def test_an_argument_that_looks_like_a_message_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    argument = "option bootstrap-server, "
    assert run(["topics", "--bootstrap-server", "127.0.0.1:1", "--list", "--partitions", argument]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(
        "Error while executing topic command : Cannot parse argument 'option bootstrap-server, '"
    )
    assert said.err == ""
