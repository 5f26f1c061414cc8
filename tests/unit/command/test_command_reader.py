"""Options read off a command line, in the two grammars, and rows as JSON and tab-separated values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kcli.command.options import CommonOptions, Exclusive, Kind, ParseError, flag, option, options_of
from kcli.command.reader import ARGPARSE4J, Grammar, Reader, Words
from kcli.command.rows import json_line, plain, tsv_line

PYTHON = Grammar(abbreviations=False, spaced_arguments=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(CommonOptions):
    execute: tuple[str, ...] = option("SQL.", short="e", repeatable=True)
    file: str | None = option("A file.")
    top: int | None = option("A number.", Kind.INTEGER)
    dry_run: bool = flag("Nothing is done.")


ONE = (Exclusive(names=("execute", "file")),)


def read(grammar: Grammar, *words: str) -> Reader:
    reader = Reader(grammar)
    reader.read(Words(list(words)), options_of(Query), ONE)
    return reader


@pytest.mark.parametrize("grammar", [ARGPARSE4J, PYTHON])
def test_forms_that_both_grammars_take(grammar: Grammar) -> None:
    for words in (("-e", "a"), ("-ea",), ("--execute", "a"), ("--execute=a",)):
        assert read(grammar, *words).values == {"execute": ("a",)}
    assert read(grammar, "-e", "a", "--execute", "b").values == {"execute": ("a", "b")}
    assert read(grammar, "--top", "-5", "--dry-run").values == {"top": -5, "dry_run": True}
    assert read(grammar, "--top", "1", "--top", "2").values == {"top": 2}
    assert read(grammar, "--file=", "--dry-run").given == ["file", "dry-run"]


def test_only_argparse4j_takes_the_beginning_of_a_name() -> None:
    assert read(ARGPARSE4J, "--exec", "a").values == {"execute": ("a",)}
    with pytest.raises(ParseError, match="unrecognized arguments: '--exec'") as caught:
        read(PYTHON, "--exec", "a")
    assert caught.value.hint == "Did you mean --execute?"


def test_only_python_takes_an_argument_with_a_dash_and_a_space() -> None:
    sql = "-- the newest\nselect 1"
    assert read(PYTHON, "-e", sql).values == {"execute": (sql,)}
    assert read(PYTHON, "--dry-run", "-eselect 1").values == {"dry_run": True, "execute": ("select 1",)}
    assert read(PYTHON, "--dry-run", "--execute=select 1").values["execute"] == ("select 1",)
    with pytest.raises(ParseError, match="argument --execute/-e: expected one argument"):
        read(ARGPARSE4J, "-e", sql)


@pytest.mark.parametrize(
    "words, said",
    [
        (("-e", "a", "--file", "f"), "argument --file: not allowed with argument --execute/-e"),
        (("--top", "x"), "argument --top: could not convert 'x' to Integer"),
        (("--top",), "argument --top: expected one argument"),
        (("word",), "unrecognized arguments: 'word'"),
        (("--", "--top"), "unrecognized arguments: '--top'"),
    ],
)
def test_words_that_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ParseError, match=said):
        read(PYTHON, *words)


def test_a_given_option_excludes_the_others_of_its_group() -> None:
    assert read(PYTHON, "--file", "f").excluded(ONE) == {"execute", "file"}
    assert read(PYTHON, "--dry-run").excluded(ONE) == frozenset()


def test_a_row_in_two_formats() -> None:
    row = plain({"topic": "ö\t", "count": 1, "gone": None, "parts": (1, 2), "is_new": True})
    assert json_line(row) == '{"topic": "ö\\t", "count": 1, "gone": null, "parts": [1, 2], "is_new": true}'
    assert tsv_line(row) == "topic\tcount\tgone\tparts\tis_new"
    assert tsv_line(row.values()) == "ö\\t\t1\t\t[1, 2]\ttrue"


def test_the_values_that_were_read_fill_the_dataclass() -> None:
    words = ["--top", "3", "-e", "a", "-eb", "--dry-run"]
    reader = read(ARGPARSE4J, *words)
    filled = reader.filled(Query, words, ["more"], {"client.id": "c"})
    assert (filled.top, filled.execute, filled.dry_run, filled.file) == (3, ("a", "b"), True, None)
    assert filled.given == {"top", "execute", "dry-run"}
    assert (filled.argv, filled.arguments) == (tuple(words), ("more",))
    assert filled.client_properties == {"client.id": "c"}


def test_an_option_that_was_not_given_has_no_text() -> None:
    reader = read(ARGPARSE4J, "--file", "f")
    assert reader.text("file") == "f"
    assert reader.text("output") is None
