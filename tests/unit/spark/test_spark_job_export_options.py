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
        (("--table", "a.b"), "iceberg"),
        (("--catalog", "c"), "iceberg"),
    ],
)
def test_refused_for_files(words: tuple[str, ...], formats: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        export.parse((*COMMON, *words))
    told = f"{words[0]} is for --format {formats}; with parquet it would do nothing"
    assert told in " ".join(capsys.readouterr().err.split())
