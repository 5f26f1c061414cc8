"""`ingest`: rows of a database that continue from where they were, and lines that do not parse."""

from __future__ import annotations

import csv
import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.spark.jobs.ingest import job as ingest
from kcli.spark.jobs.shared.running import Done
from rigs.librdkafka import consume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

pytest.importorskip("sqlalchemy")

Make = Callable[..., str]


def ingested(spark: SparkSession, broker: BrokerProcess, *words: str) -> Done:
    return ingest.run(spark, ingest.parse(["--bootstrap-server", broker.bootstrap, *words]))


def insert(path: Path, *rows: tuple[int, str, str]) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute("create table if not exists orders (id integer, item text, changed text)")
        database.executemany("insert into orders values (?, ?, ?)", rows)
    database.close()


def test_new_rows_by_an_incrementing_column(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name, database = topic(1), tmp_path / "shop.db"
    words = ["--topic", name, "--format", "jdbc", "--url", f"sqlite:///{database}", "--table", "orders"]
    insert(database, *((nth, f"item {nth}", "2026-01-01") for nth in range(10)))
    stream = ["--incrementing-column", "id", "--key-column", "id", "--mode", "available-now", "--tasks", "2"]
    stream += ["--checkpoint", str(tmp_path / "checkpoint"), "--max-rows-per-trigger", "4"]
    assert ingested(spark, broker, *words, *stream).rows == 10
    assert ingested(spark, broker, *words, *stream).rows == 0
    insert(database, (10, "item 10", "2026-01-02"))
    assert ingested(spark, broker, *words, *stream).rows == 1
    records = [
        (message.key(), json.loads(message.value())) for message in consume(broker.bootstrap, name, 11)
    ]
    assert sorted(records, key=lambda record: int(record[0])) == [
        (b"%d" % nth, {"id": nth, "item": f"item {nth}", "changed": f"2026-01-0{1 + nth // 10}"})
        for nth in range(11)
    ]


def test_rows_by_time_and_by_query(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name, database = topic(1), tmp_path / "shop.db"
    common = ["--topic", name, "--format", "jdbc", "--url", f"sqlite:///{database}"]
    stream = ["--timestamp-column", "changed", "--mode", "available-now", "--table", "orders"]
    stream += ["--checkpoint", str(tmp_path / "checkpoint")]
    insert(database, (1, "a", "2026-01-01 10:00:00"), (2, "b", "2026-01-01 10:00:00"))
    insert(database, (3, "of the future", "9999-01-01 00:00:00"))
    assert ingested(spark, broker, *common, *stream).rows == 2
    assert ingested(spark, broker, *common, *stream).rows == 0
    query = ["--query", "select item, id from orders where id > 1", "--value-column", "item"]
    assert ingested(spark, broker, *common, *query).rows == 2
    # Spark's own JDBC source, where a jar is given (Derby's is among Spark's).
    url = f"jdbc:derby:{tmp_path}/derby;create=true"
    common[-1] = url
    assert ingested(spark, broker, *common, "--query", "select 7 as n from sysibm.sysdummy1").rows == 1
    values = [message.value() for message in consume(broker.bootstrap, name, 5)]
    assert sorted(values[2:4]) == [b"b", b"of the future"]
    assert json.loads(values[4]) == {"N": 7}


def test_lines_that_do_not_parse(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name, letters = topic(1), topic(1)
    lines, rows = tmp_path / "in.json", tmp_path / "in.csv"
    lines.write_text('{"n": 1}\n\n{"n": \n{"n": 3}\n')
    rows.write_text("a`b,A,a,_metadata,file_path,_corrupt_record\n1,2,3,4,5,6\n2,too few\n6,5,4,3,2,1\n")
    for path, kind in ((lines, "json"), (rows, "csv")):
        words = ["--topic", name, "--path", str(path), "--format", kind, "--on-bad-record"]
        with pytest.raises(Exception, match=f"a record does not parse, file file:{path}: the line is not"):
            ingested(spark, broker, *words, "fail")
        done = ingested(spark, broker, *words, "drop")
        assert (done.rows, done.bad_records) == (2, 1)
        done = ingested(spark, broker, *words, "dead-letter", "--dead-letter-topic", letters)
        assert (done.rows, done.bad_records) == (2, 1)
    messages = consume(broker.bootstrap, letters, 2)
    assert [message.value() for message in messages] == [b'{"n": ', b"2,too few"]
    assert dict(messages[0].headers()) == {
        "__connect.errors.exception.message": b"the line is not JSON",
        "__connect.errors.file": f"file:{lines}".encode(),
    }
    sent = [json.loads(message.value()) for message in consume(broker.bootstrap, name, 8)]
    names = ("a`b", "A", "a", "_metadata", "file_path", "_corrupt_record")
    read = [dict(zip(names, row, strict=True)) for row in ("123456", "654321")]
    assert sent == [{"n": 1}, {"n": 3}] * 2 + read * 2


def test_a_real_table_of_log_lines(
    spark: SparkSession, broker: BrokerProcess, topic: Make, real_logs: Path
) -> None:
    name = topic(3)
    path = real_logs / "OpenSSH_2k.log_structured.csv"
    words = ["--topic", name, "--path", str(path), "--format", "csv", "--key-column", "LineId"]
    assert ingested(spark, broker, *words, "--value-column", "Content").rows == 2000
    with path.open(newline="") as file:
        checksum = sum(zlib.crc32(row["Content"].encode()) for row in csv.DictReader(file))
    assert sum(zlib.crc32(message.value()) for message in consume(broker.bootstrap, name, 2000)) == checksum
