"""What a dry run checks without Spark: tables of a query, columns of files, durations, columns of an export."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kcli.spark.jobs.ingest.columns import check_columns, check_files, file_columns
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import check_duration, positive
from kcli.spark.jobs.sql.table_names import table_names


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT a, 'from x' FROM orders -- not y", ["orders"]),
        ("select * from `a.b`, c d join web.clicks using (x) where y in (1, 2)", ["a.b", "c", "web.clicks"]),
        (
            "with x as (select 1 from t), y(a, b) as (select 2, 3 from X) select * from y, z order by a, b",
            ["t", "z"],
        ),
        ("select extract(year from at), trim(both 'x' from n), a is not distinct from b from q", ["q"]),
        (
            "select (select max(x) from u), 2 from (select * from w) v, k tablesample (5 percent)",
            ["u", "w", "k"],
        ),
        ("select * from range(10) union select * from values (1), (2) as t(a)", []),
        ("FROM t WATERMARK at DELAY OF INTERVAL 10 MINUTES", ["t"]),
        ("select * from `a``b` lateral view explode(z) e as f", ["a`b"]),
        ("select 1", []),
    ],
)
def test_tables_that_a_query_reads(query: str, names: list[str]) -> None:
    assert table_names(query) == names


def test_columns_of_files(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    rows, table, packed = tmp_path / "a.csv", tmp_path / "a.parquet", tmp_path / "a.csv.gz"
    rows.write_text('\nid;"a;b"\n1;2\n')
    parquet.write_table(pa.table({"x": [1]}), table)
    packed.write_bytes(gzip.compress(b"id\n1\n"))
    assert file_columns([str(rows)], "csv", {"sep": ";"}) == ["id", "a;b"]
    assert file_columns([str(table)], "parquet", {}) == ["x"]
    assert file_columns([str(packed)], "csv", {}) is None
    assert file_columns([str(rows)], "csv", {"header": "false"}) is None
    with pytest.raises(JobError, match=r"a\.csv is not a Parquet file"):
        file_columns([str(rows)], "parquet", {})
    with pytest.raises(JobError, match="there is no csv file in --path"):
        check_files([], "csv")
    check_files([], "text")
    check_columns([None, "id", "x.y"], ["id", "x"], "rows", fields=True)
    with pytest.raises(JobError, match=r"there is no column x\.y; the files have id, x"):
        check_columns(["x.y"], ["id", "x"], "files")


def test_numbers_and_durations_that_spark_would_refuse() -> None:
    for text in ("1 second", "10 seconds", "interval 1 minute 30 seconds", "0.5 SECONDS", "2 weeks"):
        check_duration(text, "--trigger-interval")
    check_duration("1 month", "watermark", calendar=True)
    for text in ("1", "second", "1 secnd", "-1 second", "1 month", "", "10s", "\u0661 second"):
        with pytest.raises(JobError, match="expected a duration"):
            check_duration(text, "--trigger-interval")
    positive(None, "--n")
    positive("7", "--n")
    for text in ("0", "-1", "x", "1_0", " 1", "2147483648", ""):
        with pytest.raises(JobError, match="expected a positive number"):
            positive(text, "--n")
