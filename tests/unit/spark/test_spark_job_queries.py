"""Statements of SQL: where they end, what they write to; tables that are declared in a file."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from kcli.command.options import UsageError
from kcli.spark.jobs.profile import job as profile
from kcli.spark.jobs.profile.page import chart
from kcli.spark.jobs.records.topic_tables import declared_tables
from kcli.spark.jobs.replay import job as replay
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.sql import job as sql
from kcli.spark.jobs.sql.queries import Statement, statement, statements
from kcli.spark.jobs.transform import job as transform

SERVER = ["--bootstrap-server", "h:1"]


def test_where_statements_end() -> None:
    text = "select ';' , \"a;b\" -- not; here\nfrom `t;` /* nor ; here */; \n;; select 'it\\'s;'\n"
    assert statements(text) == ["select ';' , \"a;b\"  \nfrom `t;`", "select 'it\\'s;'"]
    assert statements(" -- nothing\n") == []


@pytest.mark.parametrize(
    "text, target, query",
    [
        ("INSERT INTO t SELECT 1", "t", "SELECT 1"),
        (
            "insert into table `a.b-c` with x as (select 1) select * from x",
            "a.b-c",
            "with x as (select 1) select * from x",
        ),
        ("Insert Into t (select 1)", "t", "(select 1)"),
        ("select 'insert into t select 1'", None, "select 'insert into t select 1'"),
    ],
)
def test_a_statement_names_its_target_topic(text: str, target: str | None, query: str) -> None:
    assert statement(text) == Statement(query, target)


def test_statements_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1;\nselect\n 2;select 3; select 4"))
    assert list(sql.read_statements()) == ["select 1", "select\n 2", "select 3", "select 4"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1;\nquit\nselect 2;"))
    assert list(sql.read_statements()) == ["select 1"]


def test_tables_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text("a:\n  topic: b\n  format: csv\n  schema: id bigint\n  watermark: at 10 minutes\nc: {}\n")
    options = sql.parse([*SERVER, "--tables", str(file), "--value-schema", "x int", "-e", "select 1"])
    tables = declared_tables(options)
    assert (tables["a"].topic, tables["a"].values.schema) == ("b", "id bigint")
    assert tables["a"].watermark == ("at", "10 minutes")
    assert (tables["c"].topic, tables["c"].values.format, tables["c"].values.schema) == ("c", "json", "x int")
    for text, said in (
        ("a:\n  colour: red\n", "a.colour is not one of topic"),
        ("a: b\n", "expected tables by name"),
        ("a:\n  watermark: at\n", "expected 'COLUMN 10 minutes'"),
        ("a: [", "while parsing"),
    ):
        file.write_text(text)
        with pytest.raises(JobError, match=said):
            declared_tables(options)


def test_options_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    wrong = [
        (transform.parse, ["--sql", "select 1; select 2", "--target-topic", "t"], "expected one query"),
        (
            transform.parse,
            ["--sql", "select 1", "--target-topic", "t", "--mode", "continuous"],
            "needs --checkpoint",
        ),
        (sql.parse, ["--mode", "available-now", "--checkpoint", "c"], "the shell runs batches only"),
        (sql.parse, ["--on-bad-record", "dead-letter"], "needs --dead-letter-topic"),
        (sql.parse, ["--dead-letter-topic", "t"], "is for --on-bad-record dead-letter"),
        (sql.parse, ["--output-schema", "x"], "--output-schema is for avro and protobuf"),
        (replay.parse, ["--topic", "t", "--target-topic", "t"], "expected another topic"),
        (replay.parse, ["--topic", "t,u", "--target-topic", "v"], "expected one topic"),
        (profile.parse, ["--topic", "t", "--top", "0"], "expected a positive number"),
        (profile.parse, ["--topic", "t", "--html", f"{tmp_path}/no/p.html"], "the directory does not exist"),
    ]
    for parse, words, said in wrong:
        with pytest.raises(UsageError, match=said):
            parse([*SERVER, *words])


def test_a_chart_escapes_and_shows_small_counts() -> None:
    drawn = chart(["<a>", "b"], [1_000_000, 1])
    assert "<a>" not in drawn
    assert "&lt;a&gt;: 1,000,000" in drawn
    assert 'height="1.0"' in drawn
    assert chart(["x"], [0]).count('height="0.0"') == 1


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (1, "1,0"),
        (3, "3,2,1,0"),
        (7, "8,6,4,2,0"),
        (3333, "4,000,3,000,2,000,1,000,0"),
        (20_001, "30,000,20,000,10,000,0"),
    ],
)
def test_the_scale_of_a_chart_has_round_values(most: int, shown: str) -> None:
    scale = chart(["a", "b"], [0, most]).partition('class="scale">')[2].partition("</div>")[0]
    assert ",".join(re.findall(r"<span>([^<]*)</span>", scale)) == shown
