"""Options that mean nothing for what is asked are refused instead of passed over."""

from __future__ import annotations

from types import ModuleType

import pytest

pytest.importorskip("pyarrow")

from kcli.command.options import UsageError
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.ingest import job as ingest

COMMON = ("--bootstrap-server", "h:1", "--topic", "t", "--path", "/p")


@pytest.mark.parametrize(
    ("words", "formats"),
    [
        (("--compact-every", "3"), "delta or iceberg"),
        (("--vacuum-hours", "1"), "delta or iceberg"),
        (("--target-file-bytes", "1"), "delta or iceberg"),
        (("--table-option", "a=b"), "delta or iceberg"),
        (("--run-id", "a"), "delta or iceberg"),
        (("--table", "a.b"), "iceberg"),
        (("--catalog", "c"), "iceberg"),
    ],
)
def test_refused_for_files(words: tuple[str, ...], formats: str) -> None:
    with pytest.raises(UsageError) as caught:
        export.parse((*COMMON, *words))
    assert str(caught.value) == f"{words[0]} is for --format {formats}; it has no effect here"


def test_a_run_that_may_be_started_twice_says_what_to_do_with_the_table() -> None:
    with pytest.raises(UsageError, match="--run-id is for batches with --save-mode append or overwrite"):
        export.parse((*COMMON, "--format", "delta", "--run-id", "a"))
    assert (
        export.parse((*COMMON, "--format", "delta", "--run-id", "a", "--save-mode", "append")).run_id == "a"
    )


@pytest.mark.parametrize(
    ("job", "words", "use"),
    [
        (export, ("--max-offsets-per-trigger=9",), "--mode available-now or continuous"),
        (export, ("--mode", "available-now", "--checkpoint", "c", "--save-mode", "append"), "--mode batch"),
        (
            export,
            ("--mode", "available-now", "--checkpoint", "c", "--trigger-interval", "1 s"),
            "--mode continuous",
        ),
        (export, ("--on-bad-record", "drop"), "values that are decoded"),
        (ingest, ("--table", "t"), "--format jdbc"),
        (ingest, ("--on-bad-record", "drop"), "--format json or csv, or --value-format"),
        (ingest, ("--format", "jdbc", "--url", "sqlite:///x", "--table", "t"), "files"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    job: ModuleType, words: tuple[str, ...], use: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=f"is for {use}"):
        job.parse((*COMMON, *words))
    assert job.main((*COMMON, *words)) == 1
    assert f"is for {use}" in capsys.readouterr().err
