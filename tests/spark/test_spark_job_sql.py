"""`sql` and `transform`: topics as tables, windows, joins, formats, what pandas makes of the same."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.running import Done
from kcli.spark.jobs.sql import job as sql
from kcli.spark.jobs.transform import job as transform
from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
FIRST_MS = 1_700_000_000_000


def ran(spark: SparkSession, broker: BrokerProcess, *words: str) -> Done:
    return sql.run(spark, sql.parse(["--bootstrap-server", broker.bootstrap, *words]))


def transformed(spark: SparkSession, broker: BrokerProcess, *words: str) -> Done:
    return transform.run(spark, transform.parse(["--bootstrap-server", broker.bootstrap, *words]))


def orders(broker: BrokerProcess, topic: Make, count: int = 40) -> tuple[str, list[dict[str, Any]]]:
    name = topic(2, "orders")
    values = [
        {"id": nth, "user": f"u{nth % 5}", "amount": nth / 2, "at": f"2026-01-01T00:{nth:02}:00Z"}
        for nth in range(count)
    ]
    produce(broker.bootstrap, name, [{"key": value["user"], "value": json.dumps(value)} for value in values])
    return name, values


def test_queries_joins_and_inserts(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import pandas as pd

    name, values = orders(broker, topic)
    users, totals = topic(1, "users"), topic(1, "totals")
    names = [{"user": f"u{nth}", "name": f"user; {nth}"} for nth in range(4)]
    produce(broker.bootstrap, users, [{"value": json.dumps(user)} for user in names])
    query = f"SELECT name, sum(amount) AS total FROM `{name}` JOIN `{users}` USING (user) GROUP BY name ORDER BY name"
    done = ran(spark, broker, "--rows-as", "json", "-e", f"{query}; -- no more;")
    joined = pd.DataFrame(values).merge(pd.DataFrame(names), on="user")
    expected = joined.groupby("name")["amount"].sum().reset_index(name="total").to_dict("records")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
    assert done.rows == 4
    insert = f"INSERT INTO `{totals}` SELECT user AS _key, count(*) AS n FROM `{name}` GROUP BY user"
    assert ran(spark, broker, "-e", insert).rows == 5
    results = {message.key(): message.value() for message in consume(broker.bootstrap, totals, 5)}
    assert results == {b"u%d" % nth: b'{"n":8}' for nth in range(5)}
    # The shell: statements over several lines, a wrong one, and what is shown.
    shell = f"show topics;\nselect count(*) n,\n 'a;b' t from `{name}`;\nselect nothing;\n"
    shell += f"select _key, id\nfrom `{name}` where id = 7"
    monkeypatch.setattr(sys, "stdin", io.StringIO(shell))
    with pytest.raises(JobError, match="1 of the statements failed"):
        ran(spark, broker, "--rows-as", "tsv")
    out, err = capsys.readouterr()
    assert totals in out.splitlines()
    assert out.endswith("n\tt\n40\ta;b\n_key\tid\nu2\t7\n")
    assert "sql: [UNRESOLVED_COLUMN" in err
    with pytest.raises(JobError, match="there is no table or topic nosuch"):
        ran(spark, broker, "-e", "select * from nosuch")


ODD = [
    b'{"amount":1,"_partition":7,"_headers":7,"_KEY":7}',
    b'{"amount":1,"Amount":7,"AMOUNT":7}',
    b'{"amount":1,"a`b":7,"a.b":7,"a b\\n":7,"":7,"x\\ud800":7}',
    b'{"amount":1,"key":7,"value":7,"topic":7,"offset":7,"timestamp":7,"headers":7,"_corrupt_record":7}',
    b'{"amount":1,"_record":7,"_parse_error":7,"_decoded":7,"_error":7,"deep":{"q":7,"Q":7,"q`.":7}}',
    b'{"amount":7,"amount":1}',
    b'{"amount":1,"nested":' + b"[" * 400 + b"]" * 400 + b"}",
]
"""Records with names that Spark's SQL cannot tell apart or cannot parse. The amount of each of them is 1."""

BAD = [
    *(b"[]", b'[{"amount":1}]', b'[{"amount":1},{"amount":1}]', b"5", b'"x"', b"null", b"", b"no JSON"),
    *(b'{"amount":NaN}', b'{"amount":"x"}', b'{"amount":[1]}', b'{"amount":1} and more', b'{"user":"\xff"}'),
    b'{"amount":' + b"9" * 2000 + b"}",
    b'{"amount":1,"nested":' + b"[" * 2000 + b"]" * 2000 + b"}",
]
"""Records that are not JSON objects, or whose values do not have the types of the other records."""


def test_one_record_does_not_change_what_a_query_sees_of_the_others(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic(1)
    good = [b'{"user":"u","amount":%d}' % nth for nth in range(50)]
    produce(broker.bootstrap, name, [{"value": value} for value in (*good, *ODD, *BAD)])
    words = ("--rows-as", "tsv", "-e", f"SELECT _partition, count(*), sum(amount) FROM `{name}` GROUP BY 1")
    done = ran(spark, broker, "--on-bad-record", "drop", *words)
    assert done.bad_records == len(BAD)
    assert capsys.readouterr().out.splitlines()[1] == f"0\t{50 + len(ODD)}\t{sum(range(50)) + len(ODD)}"
    first = f"a record does not parse, topic {name}, partition 0, offset {50 + len(ODD)}: the value is not JSON of "
    with pytest.raises(Exception, match=first):
        ran(spark, broker, *words)
    # Each name is a column of its own, also in the records and the files that a job writes.
    query = f"SELECT * FROM `{name}` WHERE _offset BETWEEN 50 AND 54 ORDER BY _offset"
    target = topic(1)
    ran(spark, broker, "--on-bad-record", "drop", "-e", f"INSERT INTO `{target}` {query}")
    written = [json.loads(message.value()) for message in consume(broker.bootstrap, target, 5)]
    assert [sum(value == 7 for value in row.values()) for row in written] == [3, 2, 5, 7, 4]
    assert written[4]["deep"] == {"Q": 7, "q_2": 7, "q`.": 7}
    assert {"_partition_2", "_headers_2", "_KEY_2", "AMOUNT_2", "Amount_3", "_empty"} < set().union(*written)
    export_words = ["--topic", name, "--value-format", "json", "--on-bad-record", "drop", "--path"]
    for form in ("json", "parquet"):
        path = str(tmp_path / form)
        options = export.parse(
            ["--bootstrap-server", broker.bootstrap, *export_words, path, "--format", form]
        )
        assert export.run(spark, options).bad_records == len(BAD)
    assert spark.read.parquet(str(tmp_path / "parquet")).selectExpr("sum(value.amount)").collect() == [
        (sum(range(50)) + len(ODD),)
    ]


def test_a_stream_of_windows(spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path) -> None:
    """What is late enough is final: windows of ten minutes, of which all but the last two are closed."""
    name, values = orders(broker, topic)
    target = topic(1)
    query = f"""
        SELECT cast(window.start AS string) AS _key, count(*) AS n, sum(amount) AS total
        FROM `{name}` WATERMARK at DELAY OF INTERVAL 5 MINUTES GROUP BY window(at, '10 minutes')
    """
    words = ["--sql", query, "--target-topic", target, "--mode", "available-now"]
    words += ["--value-schema", "id bigint, user string, amount double, at timestamp"]
    words += ["--checkpoint", str(tmp_path / "checkpoint")]
    assert transformed(spark, broker, *words).rows == 3
    windows = {
        message.key().decode(): json.loads(message.value())
        for message in consume(broker.bootstrap, target, 3)
    }
    expected = {}
    for ten in range(3):
        inside = [value["amount"] for value in values[10 * ten : 10 * ten + 10]]
        expected[f"2026-01-01 00:{ten}0:00"] = {"n": 10, "total": sum(inside)}
    assert windows == expected
    assert transformed(spark, broker, *words).rows == 0  # the checkpoint knows them


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def descriptor_set() -> bytes:
    """What protoc would write for `message Order { int64 id = 1; string user = 2; repeated string tags = 3; }`."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    field = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    message.field.add(name="user", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    message.field.add(name="tags", number=3, type=field.TYPE_STRING, label=field.LABEL_REPEATED)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_values_with_a_schema_there_and_back(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    name, coded, letters = topic(1, "plain"), topic(1, "coded"), topic(1, "letters")
    rows = [{"id": nth, "user": f"u{nth}", "tags": ["a", "b"][: nth % 3]} for nth in range(5)]
    produce(broker.bootstrap, name, [{"key": f"k{row['id']}", "value": json.dumps(row)} for row in rows])
    schema = tmp_path / "schema"
    schema.write_bytes(json.dumps(AVRO).encode() if kind == "avro" else descriptor_set())
    message = ["shop.Order"] if kind == "protobuf" else []
    out = [
        "--output-format",
        kind,
        "--output-schema",
        str(schema),
        *(["--output-message", *message] if message else []),
    ]
    query = f"SELECT id, user, tags, _key FROM `{name}`"
    assert transformed(spark, broker, "--sql", query, "--target-topic", coded, *out).rows == 5
    produce(broker.bootstrap, coded, [{"key": "bad", "value": b"\xff\xff\xff", "headers": {"h": b"1"}}])
    tables = tmp_path / "tables.yaml"
    lines = [
        f"seen:\n  topic: {coded}\n  format: {kind}\n  schema: {schema}\n",
        *(f"  message: {line}\n" for line in message),
    ]
    tables.write_text("".join(lines))
    words = [
        "--tables",
        str(tables),
        "--rows-as",
        "json",
        "-e",
        "SELECT id, user, tags, _key, _offset FROM seen",
    ]
    with pytest.raises(
        Exception,
        match=f"a record does not parse, topic {coded}, partition 0, offset 5: the value is not {kind}",
    ):
        ran(spark, broker, *words)
    capsys.readouterr()
    done = ran(spark, broker, *words, "--on-bad-record", "dead-letter", "--dead-letter-topic", letters)
    assert (done.rows, done.bad_records) == (5, 1)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown == [row | {"_key": f"k{row['id']}", "_offset": row["id"]} for row in rows]
    [letter] = consume(broker.bootstrap, letters, 1)
    assert (letter.key(), letter.value()) == (b"bad", b"\xff\xff\xff")
    headers = dict(letter.headers())
    assert headers["h"] == b"1"
    assert headers["__connect.errors.offset"] == b"5"


def test_streams_joined_and_shown(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, values = orders(broker, topic, 10)
    paid, target = topic(1, "paid"), topic(1)
    times = [{"order": value["id"], "paid": value["at"]} for value in values if value["id"] % 2]
    produce(broker.bootstrap, paid, [{"value": json.dumps(order)} for order in times])
    tables = tmp_path / "tables.yaml"
    tables.write_text(
        f"o: {{topic: {name}, schema: 'id bigint, at timestamp', watermark: at 1 minute}}\n"
        f"p: {{topic: {paid}, schema: 'order bigint, paid timestamp', watermark: paid 1 minute}}\n"
    )
    words = ["--tables", str(tables), "--mode", "available-now", "--checkpoint", str(tmp_path / "checkpoint")]
    words += ["--rows-as", "tsv", "-e", "SELECT id, _partition FROM o WHERE id = 3"]
    inside = "paid BETWEEN at AND at + INTERVAL 1 MINUTE"
    words += [
        "-e",
        f"INSERT INTO `{target}` SELECT id, _key FROM o JOIN (SELECT order, paid FROM p) ON id = order AND {inside}",
    ]
    done = ran(spark, broker, *words)
    assert done.rows == 1 + len(times)
    assert capsys.readouterr().out.splitlines()[0] == "id\t_partition"
    ids = sorted(
        json.loads(message.value())["id"] for message in consume(broker.bootstrap, target, len(times))
    )
    assert ids == [order["order"] for order in times]
