from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kcli.cli.syntax import argparse4j
from kcli.cli.syntax.options import (
    Command,
    CommonOptions,
    Exclusive,
    Family,
    HelpRequested,
    Kind,
    ParseError,
    Subcommand,
    flag,
    option,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server(CommonOptions):
    bootstrap_server: str | None = option("A server.", short="b")
    bootstrap_controller: str | None = option("A controller.", short="C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregister(Server):
    id: int | None = option("An id.", Kind.INTEGER, short="i", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Perf(CommonOptions):
    topic: str | None = option("A topic.", required=True)
    throughput: float | None = option("A rate.", Kind.DOUBLE)
    props: tuple[str, ...] = option("Settings.", words=True)
    print_metrics: bool = flag("Print.")


ONE = (Exclusive(names=("bootstrap-server", "bootstrap-controller"), required=True),)

TOOL = Command(
    name="tool",
    description="A tool.",
    family=Family.ARGPARSE4J,
    prog="kafka-tool",
    subcommands=(
        Subcommand(name="show", help="Show.", options=Server, run=lambda *_: 0, exclusive=ONE),
        Subcommand(name="unregister", help="Forget.", options=Unregister, run=lambda *_: 0, exclusive=ONE),
    ),
    file_arguments=True,
)
PERF = Command(
    name="perf",
    description="Perf.",
    family=Family.ARGPARSE4J,
    prog="perf",
    options=Perf,
    run=lambda *_: 0,
    bare_exit=0,
)


def test_a_subcommand_and_its_options() -> None:
    options, sub = argparse4j.parse(TOOL, ["unregister", "-b", "h:1", "--id=5"])
    assert sub is not None and sub.name == "unregister"
    assert isinstance(options, Unregister)
    assert (options.bootstrap_server, options.id) == ("h:1", 5)


def test_a_long_option_may_be_abbreviated() -> None:
    options, _ = argparse4j.parse(TOOL, ["show", "--bootstrap-s", "h:1"])
    assert isinstance(options, Server) and options.bootstrap_server == "h:1"
    with pytest.raises(ParseError, match="ambiguous option: --boot could match"):
        argparse4j.parse(TOOL, ["show", "--boot", "h:1"])


def test_a_short_option_may_hold_its_value() -> None:
    options, _ = argparse4j.parse(TOOL, ["show", "-bh:1"])
    assert isinstance(options, Server) and options.bootstrap_server == "h:1"


def test_two_dashes_end_the_options() -> None:
    options, _ = argparse4j.parse(TOOL, ["show", "-bh:1", "--"])
    assert isinstance(options, Server) and options.bootstrap_server == "h:1"
    with pytest.raises(ParseError, match="unrecognized arguments: '-bh:1'"):
        argparse4j.parse(TOOL, ["--", "show", "-bh:1"])


def test_negative_numbers_are_values_and_lists_end_at_the_next_option() -> None:
    options, _ = argparse4j.parse(
        PERF, ["--topic", "t", "--throughput", "-1", "--props", "a=1", "b=2", "--print-metrics"]
    )
    assert isinstance(options, Perf)
    assert (options.throughput, options.props, options.print_metrics) == (-1.0, ("a=1", "b=2"), True)


def test_a_file_of_arguments_is_read_as_java_reads_it(tmp_path: Path) -> None:
    (tmp_path / "args").write_bytes(b"show\r\n--bootstrap-server\rh\xff\x0b\xe2\x80\xa8\xc2\x85:1")
    options, _ = argparse4j.parse(TOOL, [f"@{tmp_path / 'args'}"])
    assert isinstance(options, Server) and options.bootstrap_server == "h\ufffd\x0b\u2028\x85:1"


def test_arguments_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "args").write_text("show\n--bootstrap-server\nh:1\n")
    options, _ = argparse4j.parse(TOOL, [f"@{tmp_path / 'args'}"])
    assert isinstance(options, Server) and options.bootstrap_server == "h:1"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "too few arguments"),
        (["bogus"], "invalid choice: 'bogus' (choose from 'show', 'unregister')"),
        (["unregister", "-b", "h:1"], "argument --id/-i is required"),
        (
            ["unregister", "-b", "h:1", "--id", "abc"],
            "argument --id/-i: could not convert 'abc' to Integer (For input string: \"abc\")",
        ),
        (["show"], "one of the arguments --bootstrap-server/-b --bootstrap-controller/-C is required"),
        (
            ["show", "-b", "a", "-C", "b"],
            "argument --bootstrap-controller/-C: not allowed with argument --bootstrap-server/-b",
        ),
        (["show", "--bogus"], "unrecognized arguments: '--bogus'"),
        (["show", "-b"], "argument --bootstrap-server/-b: expected one argument"),
    ],
)
def test_errors_in_argparse4js_words(argv: list[str], message: str) -> None:
    with pytest.raises(ParseError) as error:
        argparse4j.parse(TOOL, argv)
    assert str(error.value) == message


def test_help_is_asked_for_anywhere_and_by_some_tools_with_no_words() -> None:
    with pytest.raises(HelpRequested):
        argparse4j.parse(TOOL, ["show", "--help"])
    with pytest.raises(HelpRequested):
        argparse4j.parse(PERF, [])
    text = argparse4j.help_text(TOOL)
    assert "usage: kafka-tool" in text and "unregister" in text and "--id" in text
