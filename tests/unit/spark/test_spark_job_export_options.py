"""Options of `export` that mean nothing for a format are refused instead of passed over."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from kcli.spark.jobs import export

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
def test_refused_for_files(words: tuple[str, ...], formats: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        export.parse((*COMMON, *words))
    told = f"{words[0]} is for --format {formats}; with parquet it would do nothing"
    assert told in " ".join(capsys.readouterr().err.split())


def test_a_run_that_may_be_started_twice_says_what_to_do_with_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        export.parse((*COMMON, "--format", "delta", "--run-id", "a"))
    assert "--run-id is for batches with --save-mode append or overwrite" in capsys.readouterr().err
    assert (
        export.parse((*COMMON, "--format", "delta", "--run-id", "a", "--save-mode", "append")).run_id == "a"
    )
