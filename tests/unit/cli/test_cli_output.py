from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

import pytest

from kcli.cli.output import Output, java_text
from kcli.command.rows import plain
from kcli.errors import TopicExistsException


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Row:
    name: str
    count: int | None
    parts: tuple[int, ...] = ()


def test_text_is_kafkas_line(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("text")
    output.say("Header")
    output.rows([Row("a", 1)], lambda row: f"<{row.name}>")
    assert capsys.readouterr().out == "Header\n<a>\n"


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("json")
    output.say("Header")
    output.row(Row("ä\n", None, (1, 2)), "text")
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"name": "ä\n", "count": None, "parts": [1, 2]}]


def test_tsv_has_one_header_and_one_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("tsv")
    output.rows([Row("a\tb\\", None), Row("c", 2, (3,))], lambda row: row.name)
    assert capsys.readouterr().out.splitlines() == [
        "name\tcount\tparts",
        "a\\tb\\\\\t\t[]",
        "c\t2\t[3]",
    ]


def test_enums_become_names_and_bytes_become_escaped_text() -> None:
    assert plain({"k": Colour.RED, "b": b"\xff"}) == {"k": "RED", "b": "\\xff"}


def test_errors_print_as_java_prints_them() -> None:
    error = TopicExistsException("Topic 'a' already exists.")
    assert (
        java_text(error) == "org.apache.kafka.common.errors.TopicExistsException: Topic 'a' already exists."
    )
