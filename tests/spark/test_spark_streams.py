"""The streams library: each operation on rows at hand, then whole applications from topic to topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from librdkafka import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.spark.streams import Stream, Streams
    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
MINUTE_MS = 60_000
START_MS = 1_000 * MINUTE_MS


SHUFFLE = "spark.sql.shuffle.partitions"


@pytest.fixture
def make_app(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[..., Streams]]:
    from kcli.spark.streams import Streams

    def make(name: str = "app") -> Streams:
        return Streams(spark, name, bootstrap_servers=broker.bootstrap, checkpoint=str(tmp_path / name))

    before = spark.conf.get(SHUFFLE)
    spark.conf.set(SHUFFLE, "2")  # each is a task with a state store in every micro-batch
    yield make
    spark.conf.set(SHUFFLE, before)


@pytest.fixture
def rows(spark: SparkSession, make_app: Callable[..., Streams]) -> Callable[..., Stream]:
    """A stream of rows at hand: key, value, minute."""
    from kcli.spark.streams import Stream

    def make(*records: tuple[Any, Any], types: str = "key string, value string") -> Stream:
        from pyspark.sql import functions as F

        frame = spark.createDataFrame(list(records), types)
        return Stream(make_app(), frame.withColumn("timestamp", F.lit(0).cast("timestamp")))

    return make


def pairs(stream: Stream) -> list[tuple[Any, Any]]:
    return sorted((row.key, row.value) for row in stream.frame.collect())


def send(
    broker: BrokerProcess, topic: str, *records: tuple[str | None, Any] | tuple[str | None, Any, int]
) -> None:
    """Key, value (a text, or what JSON can say), milliseconds since START_MS."""
    produce(
        broker.bootstrap,
        topic,
        [
            {
                "key": key,
                "value": value if value is None or isinstance(value, str) else json.dumps(value),
                **({"timestamp": START_MS + at[0]} if at else {}),
            }
            for key, value, *at in records
        ],
    )


def received(broker: BrokerProcess, topic: str, count: int) -> list[tuple[str | None, Any]]:
    """Key and value of the first `count` records that are committed."""
    found = consume(broker.bootstrap, topic, count)  # librdkafka reads committed records by default
    return [
        (None if each.key() is None else each.key().decode(), each.value() and each.value().decode())
        for each in found
    ]


def newest(records: list[tuple[str | None, Any]]) -> dict[str | None, Any]:
    return {key: value for key, value in dict(records).items() if value is not None}


def test_one_record_at_a_time(rows: Callable[..., Stream]) -> None:
    from pyspark.sql import functions as F

    lines = rows(("a", "x y"), ("b", "y"), (None, "z"), ("d", None))
    is_short = lambda r: F.length(r.value) == 1  # noqa: E731
    assert pairs(lines.filter(is_short).map(key=lambda r: F.lit("k"))) == [("k", "y"), ("k", "z")]
    assert len(lines.filter_not(is_short).frame.collect()) == 2
    assert pairs(lines.flat_map_values(lambda r: F.split(r.value, " ")).select_key(lambda r: r.value)) == [
        ("x", "x"), ("y", "y"), ("y", "y"), ("z", "z"),
    ]  # fmt: skip
    twice = lines.filter(lambda r: r.key == "a").flat_map(
        lambda r: F.array(
            *(F.struct(F.concat(r.key, F.lit(n)).alias("key"), r.value.alias("value")) for n in "12")
        )
    )
    assert pairs(twice) == [("a1", "x y"), ("a2", "x y")]
    split = lines.branch(short=is_short, with_key=lambda r: r.key.isNotNull())
    assert {name: len(part.frame.collect()) for name, part in split.items()} == {
        "short": 2, "with_key": 2, "otherwise": 0,
    }  # fmt: skip
    assert len(split["short"].merge(split["with_key"]).frame.collect()) == 4
    with pytest.raises(ValueError, match="otherwise is the branch"):
        lines.branch(otherwise=is_short)


def test_aggregates(rows: Callable[..., Stream]) -> None:
    from pyspark.sql import functions as F

    amounts = rows(("a", 1), ("a", 5), ("b", 7), (None, 9), types="key string, value bigint").group_by_key()
    assert pairs(amounts.count().to_stream()) == [("a", 2), ("b", 1)]
    assert pairs(amounts.reduce(lambda r: F.max(r.value)).to_stream()) == [("a", 5), ("b", 7)]
    both = amounts.aggregate(total=lambda r: F.sum(r.value), least=lambda r: F.min(r.value))
    assert pairs(both.to_stream()) == [("a", (6, 1)), ("b", (7, 7))]
    kept = both.filter(lambda r: r.value["total"] > 6).map_values(lambda r: r.value["total"])
    assert sorted((row.key, row.value) for row in kept.frame.collect()) == [("a", None), ("b", 7)]
    with pytest.raises(ValueError, match="windows"):
        both.suppress()


@pytest.mark.parametrize("number", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_longs_are_javas(spark: SparkSession, number: int) -> None:
    from kcli.spark.streams import Long

    frame = spark.createDataFrame([(number,)], "n bigint")
    (row,) = frame.select(Long().encode(frame.n).alias("raw")).collect()
    assert bytes(row.raw) == number.to_bytes(8, "big", signed=True)
    raw = spark.createDataFrame([(row.raw,)], "raw binary")
    assert raw.select(Long().decode(raw.raw)).first()[0] == number


def test_word_count(make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make) -> None:
    """Twice, so that the second run goes on where the first ended."""
    from pyspark.sql import functions as F

    from kcli.spark.streams import Text

    lines, counts = topic(2), topic()
    for text in ("all streams lead to kafka", "hello kafka streams"):
        send(broker, lines, (None, text))
        app = make_app("word-count")
        words = app.stream(lines, value=Text()).flat_map_values(lambda r: F.split(F.lower(r.value), " "))
        words.select_key(lambda r: r.value).group_by_key().count().to(counts)
        app.run_available()
    found = received(broker, counts, 8)
    assert newest(found) == {
        "all": "1", "streams": "2", "lead": "1", "to": "1", "kafka": "2", "hello": "1",
    }  # fmt: skip


def test_fraud(make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make) -> None:
    """Payments of known customers; more than two within a window of a minute are an alarm, told when it is over."""
    from pyspark.sql import functions as F

    from kcli.spark.streams import Json, Text, Tumbling

    payments, customers, alarms, unknown = topic(), topic(), topic(), topic()
    send(
        broker,
        customers,
        ("c1", {"name": "Ada"}),
        ("c2", {"name": "Bob"}),
        ("c3", {"name": "Eve"}),
        ("c3", None),
    )
    send(
        broker,
        payments,
        *(("c1", {"amount": n}, n * 10_000) for n in range(3)),
        ("c2", {"amount": 5}, 1_000),
        ("c3", {"amount": 9}, 2_000),
        ("c2", {"amount": 1}, 5 * MINUTE_MS),  # the first minute is over
    )
    app = make_app("fraud")
    known = app.table(customers, key=Text(), value=Json("name string"))
    paid = app.stream(payments, key=Text(), value=Json("amount bigint")).join_table(
        known, lambda payment, customer: F.struct(customer["name"], payment.value["amount"]), how="left"
    )
    sides = paid.branch(unknown=lambda r: r.value["name"].isNull())
    sides["unknown"].to(unknown)
    minutes = sides["otherwise"].group_by_key().windowed_by(Tumbling("1 minute"))
    totals = minutes.aggregate(
        count=lambda r: F.count(r.value), name=lambda r: F.first(r.value["name"])
    ).suppress()
    totals.to_stream().filter(lambda r: r.value["count"] > 2).to(alarms)
    app.run_available()
    ((key, value),) = received(broker, alarms, 1)
    assert json.loads(key or "") == {"key": "c1", "start": START_MS, "end": START_MS + MINUTE_MS}
    assert json.loads(value) == {"count": 3, "name": "Ada"}
    ((key, value),) = received(broker, unknown, 1)
    assert (key, json.loads(value)) == ("c3", {"amount": 9})


def test_tables_join_as_either_changes(
    make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make
) -> None:
    from pyspark.sql import functions as F

    from kcli.spark.streams import Text

    orders, prices, stock = topic(), topic(), topic()
    joined = topic()

    def run() -> None:
        app = make_app("tables")
        counted = app.stream(orders, key=Text()).group_by_key().count().to_table(f"{joined}-counts")
        other = app.table(prices, key=Text(), value=Text())
        counted.join(other, lambda count, price: F.concat_ws("@", count, price)).to(joined)
        other.join(
            app.table(stock, key=Text(), value=Text()), lambda p, s: F.concat_ws("/", p, s), how="outer"
        ).to(f"{joined}-outer")
        app.run_available()

    send(broker, orders, ("a", "1"), ("a", "2"), ("b", "1"))
    send(broker, prices, ("a", "9"), ("c", "3"))
    send(broker, stock, ("d", "0"))
    run()
    assert newest(received(broker, joined, 4)) == {"a": "2@9"}
    assert newest(received(broker, f"{joined}-outer", 3)) == {"a": "9", "c": "3", "d": "0"}
    send(broker, prices, ("b", "4"), ("a", None))
    run()
    assert newest(received(broker, joined, 6)) == {"b": "1@4"}
    assert newest(received(broker, f"{joined}-outer", 5)) == {"b": "4", "c": "3", "d": "0"}


def test_pairs_duplicates_and_sessions(
    make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make
) -> None:
    from pyspark.sql import functions as F

    from kcli.spark.streams import Session, Text

    left, right, out, once, sessions = topic(), topic(), topic(), topic(), topic()
    send(broker, left, ("a", "l1", 0), ("a", "l1", 500), ("b", "l2", 0), ("end", "l", 3_600_000))
    send(broker, right, ("a", "r1", 5_000), ("b", "r2", 60_000), ("end", "r", 3_600_000))
    app = make_app("pairs")
    lefts = app.stream(left, key=Text(), value=Text())
    rights = app.stream(right, key=Text(), value=Text())
    lefts.deduplicate(within="1 minute").to(once)
    distinct = lefts.filter(lambda r: F.unix_millis(r.timestamp) % MINUTE_MS == 0)
    distinct.join(rights, lambda one, other: F.concat(one.value, other.value), within="10 seconds").to(out)
    lefts.group_by_key().windowed_by(Session("10 seconds")).count().to(sessions)
    app.run_available()
    assert received(broker, out, 1) == [("a", "l1r1")]
    assert sorted(received(broker, once, 3)) == [("a", "l1"), ("b", "l2"), ("end", "l")]
    found = {
        json.loads(key or "")["key"]: (json.loads(key or ""), value)
        for key, value in received(broker, sessions, 2)
    }
    assert found == {
        "a": ({"key": "a", "start": START_MS, "end": START_MS + 10_500}, "2"),
        "b": ({"key": "b", "start": START_MS, "end": START_MS + 10_000}, "1"),
    }


def test_state_of_ones_own(make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make) -> None:
    """Says how often a value was there before, and forgets the key at `stop`."""
    from kcli.spark.streams import Text

    source, target = topic(), topic()

    def seen(key: str, values: list[str], state: dict[str, Any] | None) -> tuple[list[tuple[str, int]], Any]:
        count = 0 if state is None else state["count"]
        sent = [(value, count + nth) for nth, value in enumerate(values)]
        return sent, None if "stop" in values else {"count": count + len(values)}

    for batch in ([("a", "x", 1), ("a", "y", 2)], [("a", "stop", 3), ("b", "z", 3)], [("a", "new", 4)]):
        send(broker, source, *batch)
        app = make_app("state")
        stream = app.stream(source, key=Text(), value=Text())
        stream.process(seen, state="count bigint", output="value string, before bigint").to(target)
        app.run_available()
    found = [(key, *json.loads(value).values()) for key, value in received(broker, target, 5)]
    assert sorted(found) == [("a", "new", 0), ("a", "stop", 2), ("a", "x", 0), ("a", "y", 1), ("b", "z", 0)]


def test_what_is_refused(make_app: Callable[..., Streams], spark: SparkSession) -> None:
    from kcli.errors import KcliError
    from kcli.spark.streams import Json, Streams

    with pytest.raises(ValueError, match="application_id"):
        Streams(spark, "a b", bootstrap_servers="x:1", checkpoint="/c")
    with pytest.raises(KcliError, match="writes nothing"):
        make_app().run_available()
    with pytest.raises(ValueError, match="has no schema"):
        make_app().stream("t", value=Json())
