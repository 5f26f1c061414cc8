"""Lines and their parts, as Kafka's LineMessageReader takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.console.line_reader import Line, LineParser, read_lines


def _chunks(*chunks: bytes) -> Callable[..., Any]:
    rest = list(chunks)
    return lambda size: rest.pop(0) if rest else b""


def _all(*chunks: bytes) -> list[bytes]:
    return [line for lines in read_lines(_chunks(*chunks)) for line in lines]


def test_three_kinds_of_line_end() -> None:
    assert _all(b"a\nb\r\nc\rd") == [b"a", b"b", b"c", b"d"]


def test_empty_lines_are_records_and_a_last_line_needs_no_end() -> None:
    assert _all(b"\n\na\n") == [b"", b"", b"a"]
    assert _all(b"a") == [b"a"]
    assert _all(b"") == []


def test_a_carriage_return_at_the_end_of_a_read_waits_for_its_newline() -> None:
    assert _all(b"a\r", b"\nb\n") == [b"a", b"b"]
    assert _all(b"a\r", b"b") == [b"a", b"b"]
    assert _all(b"x\na\r") == [b"x", b"a"]


@given(st.lists(st.binary(max_size=5).map(lambda b: b.replace(b"x", b"\n").replace(b"y", b"\r")), max_size=8))
def test_lines_do_not_depend_on_where_reads_end(chunks: list[bytes]) -> None:
    chunks = [chunk for chunk in chunks if chunk]
    assert _all(*chunks) == b"".join(chunks).splitlines()


def _parse(line: bytes, **properties: str) -> Line:
    return LineParser.configure({name.replace("_", "."): text for name, text in properties.items()}).parse(
        line, 7
    )


def test_a_long_line_is_put_together_once() -> None:
    """Adding each read to what came before would take minutes for a file without a newline."""
    copied = 0

    class Read(bytes):
        def __radd__(self, before: bytes) -> bytes:
            nonlocal copied
            copied += 1
            return before + bytes(self)

    reads = iter([Read(b"x" * 10)] * 5 + [Read(b"y\nz"), b""])
    assert list(read_lines(lambda size: next(reads))) == [[b"x" * 50 + b"y"], [b"z"]]
    assert copied == 0


def test_plain_line_is_its_value() -> None:
    assert _parse(b"a\tb") == Line(None, b"a\tb", [])


def test_key_ends_at_the_first_separator() -> None:
    assert _parse(b"k\tv\tw", parse_key="true") == Line(b"k", b"v\tw", [])
    assert _parse(b"k::v", parse_key=" TRUE ", key_separator="::") == Line(b"k", b"v", [])


def test_headers_key_and_value() -> None:
    line = _parse(b"a:1,b:2,a:3\tk\tv", parse_headers="true", parse_key="true")
    assert line == Line(b"k", b"v", [("a", b"1"), ("b", b"2"), ("a", b"3")])


def test_header_separator_is_a_regular_expression_and_trailing_empties_drop() -> None:
    line = _parse(b"a:1;b:2;;\tv", parse_headers="true", headers_separator="[;,]")
    assert line.headers == [("a", b"1"), ("b", b"2")]


def test_separators_that_match_nothing_at_all() -> None:
    """As Java's split: `|` is two empty alternatives, and an empty key separator is found at once."""
    parser = LineParser.configure({"parse.headers": "true", "headers.separator": "|", "ignore.error": "true"})
    assert parser.parse(b"ab\tv", 1).headers == [("a", None), ("b", None)]
    assert LineParser.configure({"parse.key": "true", "key.separator": ""}).parse(b"v", 1)[:2] == (b"", b"v")
    with pytest.raises(CommandError, match=r"headers.separator=\* is not a regular expression"):
        LineParser.configure({"headers.separator": "*"})


def test_the_null_marker_makes_a_null() -> None:
    line = _parse(b"h:N\tN\tN", parse_headers="true", parse_key="true", null_marker="N")
    assert line == Line(None, None, [("h", None)])
    assert _parse(b"N\tk\tv", parse_headers="true", parse_key="true", null_marker="N").headers == []


@pytest.mark.parametrize(
    ("line", "properties", "message"),
    [
        (b"nokey", {"parse_key": "true"}, "No key separator found on line number 7: 'nokey'"),
        (b"x", {"parse_headers": "true"}, "No headers delimiter found on line number 7: 'x'"),
        (b"x\ty", {"parse_headers": "true"}, "No header key separator found in pair 'x' on line number 7"),
        (b"\ty", {"parse_headers": "true"}, "No header key separator found in pair '' on line number 7"),
        (b"N:1\tv", {"parse_headers": "true", "null_marker": "N"}, "Header keys should not be equal"),
    ],
)  # fmt: skip
def test_lines_that_cannot_be_taken_apart(line: bytes, properties: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError, match=r"org\.apache\.kafka\.common\.KafkaException: ") as caught:
        _parse(line, **properties)
    assert message in str(caught.value)


def test_ignore_error_sends_the_whole_line() -> None:
    assert _parse(b"nokey", parse_key="true", ignore_error="true") == Line(None, b"nokey", [])
    line = _parse(b"bad\tv", parse_headers="true", ignore_error="true")
    assert line == Line(None, b"v", [("bad", None)])


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers_delimiter": ","}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers_key_separator": ","}, "headers.separator and headers.key.separator may not be equal"),
        ({"null_marker": ":"}, "null.marker and headers.key.separator may not be equal"),
    ],
)
def test_equal_separators_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        _parse(b"", **properties)
