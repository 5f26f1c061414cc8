"""The command line of a job: options, the file of defaults, help, complaints, formats of what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.cli import main
from kcli.cli.complete import candidates
from kcli.cli.syntax.registry import TOOLS
from kcli.command.options import HelpRequested, ParseError, UsageError
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.profile import job as profile
from kcli.spark.jobs.shared.job import load_job
from kcli.spark.jobs.shared.running import Done, plan_text, summary
from kcli.spark.jobs.sql import job as sql
from kcli.spark.jobs.transform import job as transform
from kcli.spark.submit import JOBS

SERVER = ("--bootstrap-server", "h:1")


@pytest.mark.parametrize("name", JOBS)
def test_help_shows_every_option_on_stdout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["spark-submit", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: kcli spark-submit [SPARK OPTIONS] {name} [-h]")
    for option in load_job(name).known():
        assert f"--{option.name}" in shown
    with pytest.raises(HelpRequested):
        load_job(name).parse(["-h"])
    assert load_job(name).main(["-h"]) == 0
    assert capsys.readouterr().out == shown


def test_a_wrong_word_is_a_usage_line_an_error_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["spark-submit", "export", *SERVER, "--topics", "t", "--path", "p"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith("usage: kcli spark-submit [SPARK OPTIONS] export")
    assert len(lines) == 3
    assert lines[-1] == (
        "kcli spark-submit export: error: unrecognized arguments: '--topics'. Did you mean --topic?"
    )


def test_options_are_not_abbreviated() -> None:
    with pytest.raises(ParseError, match="unrecognized arguments: '--topi'"):
        export.parse([*SERVER, "--topi", "t", "--path", "p"])


def test_sql_may_begin_with_a_comment() -> None:
    text = "-- the newest\nselect 1"
    assert sql.parse([*SERVER, "-e", text, "-eselect 2"]).execute == (text, "select 2")
    assert transform.parse([*SERVER, "--target-topic", "t", "--sql", text]).query == "select 1"


def test_statements_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("select 1;")
    options = sql.parse([*SERVER, "--file", str(file)])
    assert (options.execute, options.is_shell) == (("select 1;",), False)
    assert sql.parse(SERVER).is_shell
    assert not sql.parse([*SERVER, "-e", ""]).is_shell, "no statement is not the shell"
    with pytest.raises(UsageError, match="No such file"):
        sql.parse([*SERVER, "--file", str(tmp_path / "none")])


def test_the_command_line_takes_precedence_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p.properties"
    file.write_text(
        "bootstrap.servers=f:1\nexport.topic=of-file\nexport.write.option=a=1\nexport.format=csv\n"
        "profile.topic.pattern=.*\nexport.read.committed=true\n"
    )
    words = ["--config", str(file), "--path", "p"]
    options = export.parse([*words, "--format", "json", "--write-option", "b=2"])
    assert (options.bootstrap_server, options.topic, options.format) == ("f:1", "of-file", "json")
    assert options.write_option == ("a=1", "b=2")
    assert options.read_committed
    assert options.given == {"config", "path", "format", "write-option"}
    excluded = export.parse([*words, "--log-dir", "/d", "--topic-pattern", "x"])
    assert (excluded.bootstrap_server, excluded.topic) == (None, None)
    assert profile.parse(["--config", str(file)]).topic_pattern == ".*"
    with pytest.raises(UsageError, match=r"--config /nosuch: .*No such file"):
        export.parse(["--config", "/nosuch"])
    assert load_job("export").named(["--config", str(file), "--path", "p"]) >= {"bootstrap-server", "path"}


def test_exactly_one_cluster_and_one_subscription() -> None:
    with pytest.raises(ParseError, match="one of the arguments --bootstrap-server --log-dir is required"):
        profile.parse(["--topic", "t"])
    with pytest.raises(ParseError, match="argument --log-dir: not allowed with argument --bootstrap-server"):
        profile.parse([*SERVER, "--topic", "t", "--log-dir", "d"])
    with pytest.raises(ParseError, match="one of the arguments --topic --topic-pattern is required"):
        profile.parse(SERVER)


def test_a_summary_as_tab_separated_values() -> None:
    done = Done(3, bad_records=1, details={"files": 2, "topics": [{"topic": "ö"}]})
    header, row = summary("export", done, 1.25, "tsv").splitlines()
    assert header.split("\t") == ["job", "rows", "bad_records", "seconds", "stopped", "files", "topics"]
    assert row.split("\t") == ["export", "3", "1", "1.2", "false", "2", '[{"topic": "ö"}]']


def test_a_plan_in_every_format() -> None:
    steps = ["export 3 offsets", "columns: a\tb"]
    assert plan_text(steps, "text") == "export 3 offsets\ncolumns: a\tb"
    assert [json.loads(line) for line in plan_text(steps, "json").splitlines()] == [
        {"step": step} for step in steps
    ]
    assert plan_text(steps, "tsv").splitlines() == ["step", "export 3 offsets", "columns: a\\tb"]


def complete(words: list[str], incomplete: str) -> list[str]:
    return [candidate.value for candidate in candidates(TOOLS["spark-submit"].load(), words, incomplete)]


def test_completion_knows_jobs_their_options_and_values() -> None:
    assert complete([], "") == [*JOBS, "--profile", "--help"]
    assert complete(["--profile", "prod"], "re") == ["replay"]
    assert complete(["replay"], "--keep") == ["--keep-timestamps", "--keep-partitions"]
    assert complete(["export", "--format"], "pa") == ["parquet"]
    assert complete(["--master", "local[2]", "export", "--output"], "") == ["text", "json", "tsv"]
