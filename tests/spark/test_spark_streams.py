"""The streams library: each operation on rows at hand, then whole applications from topic to topic."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigs.streams_support import START_MS, newest, received, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.streams import Stream, Streams
    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
SHUFFLE = "spark.sql.shuffle.partitions"


@pytest.fixture
def make_app(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> Iterator[Callable[..., Streams]]:
    from kcli.spark.streams import Streams

    def make(name: str = "app", **options: str) -> Streams:
        return Streams(
            spark,
            name,
            bootstrap_servers=broker.bootstrap,
            checkpoint=str(tmp_path / name),
            source_options=options,
        )

    before = spark.conf.get(SHUFFLE)
    spark.conf.set(SHUFFLE, "1")  # each is a task with a state store in every micro-batch
    yield make
    spark.conf.set(SHUFFLE, before)


@pytest.fixture
def rows(spark: SparkSession, make_app: Callable[..., Streams]) -> Callable[..., Stream]:
    """A stream of rows at hand: key, value, minute."""
    from kcli.spark.streams import Stream

    def make(*records: tuple[Any, Any], types: str = "key string, value string") -> Stream:
        from pyspark.sql import functions as F

        frame = spark.createDataFrame(list(records), types)
        topology: Any = make_app()
        return Stream(topology, frame.withColumn("timestamp", F.lit(0).cast("timestamp")))

    return make


def pairs(stream: Stream) -> list[tuple[Any, Any]]:
    return sorted((row.key, row.value) for row in stream.frame.collect())


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
    split = lines.branch(
        short=is_short, early=lambda r: r.key < "b"
    )  # null for ("d", None), and for (None, "z")
    assert {name: sorted(row.key or "" for row in part.frame.collect()) for name, part in split.items()} == {
        "short": ["", "b"], "early": ["a"], "otherwise": ["d"],
    }  # fmt: skip
    assert len(split["short"].merge(split["early"], split["otherwise"]).frame.collect()) == 4
    with pytest.raises(ValueError, match="merge: value is string here and int there"):
        lines.merge(lines.map_values(lambda r: F.lit(1)))
    with pytest.raises(ValueError, match="otherwise is the branch"):
        lines.branch(otherwise=is_short)


def test_aggregates_count_reduce_and_combine_values(rows: Callable[..., Stream]) -> None:
    from pyspark.sql import functions as F

    from kcli.spark.streams import Tumbling

    records = [("a", 1), ("a", 5), ("b", 7), (None, 9), ("b", None), ("c", None)]
    amounts = rows(*records, types="key string, value bigint").group_by_key()
    assert pairs(amounts.count().to_stream()) == [("a", 2), ("b", 1)]
    assert pairs(amounts.reduce(lambda r: F.max(r.value)).to_stream()) == [("a", 5), ("b", 7)]
    both = amounts.aggregate(total=lambda r: F.sum(r.value), least=lambda r: F.min(r.value))
    assert pairs(both.to_stream()) == [("a", (6, 1)), ("b", (7, 7))]
    filtered = both.filter(lambda r: r.value["total"] > 6).map_values(lambda r: r.value["total"])
    assert sorted((row.key, row.value) for row in filtered.frame.collect()) == [("a", None), ("b", 7)]
    others = both.filter_not(lambda r: r.value["total"] > 6).map_values(lambda r: r.value["total"])
    assert sorted((row.key, row.value) for row in others.frame.collect()) == [("a", 6), ("b", None)]
    windowed = (
        rows(*records, types="key string, value bigint").group_by_key().windowed_by(Tumbling("1 minute"))
    )
    assert pairs(windowed.count().to_stream()) == [("a", 2), ("b", 1)]


def test_pairs_and_nulls(rows: Callable[..., Stream]) -> None:
    """As KIP-962 has it: a null value is nothing to join; a null key has no partner. A stream may meet itself."""
    from pyspark.sql import functions as F

    records = rows(("a", "1"), ("b", None), (None, "3"), ("d", "4"))
    others = rows(("a", "5"), ("b", "6"), (None, "7"))

    def joined(how: str) -> list[tuple[Any, Any]]:
        both = records.join(
            others, lambda one, two: F.struct(one.value, two.value), within="1 minute", how=how
        )
        return sorted(((row.key, *row.value) for row in both.frame.collect()), key=str)

    assert joined("inner") == [("a", "1", "5")]
    unmatched = [(None, "3", None), ("a", "1", "5"), ("d", "4", None)]
    assert joined("left") == sorted(unmatched, key=str)
    assert joined("outer") == sorted([*unmatched, (None, None, "7"), ("b", None, "6")], key=str)
    same = records.filter(lambda r: r.key == "a").join(
        records, lambda one, two: F.concat(one.value, two.value), within="1 minute 30 seconds"
    )
    assert pairs(same.group_by(lambda r: r.value).count().to_stream()) == [("11", 1)]


def test_how_values_are_written(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from kcli.spark.streams import Json, Long, Text

    numbers = [0, 1, -1, 2**63 - 1, -(2**63), None]
    raws = [None if number is None else number.to_bytes(8, "big", signed=True) for number in numbers]
    frame = spark.createDataFrame([*zip(numbers, raws, strict=True)], "n bigint, raw binary")
    read = frame.select(Long().encode(F.col("n")), Long().decode(F.col("raw"))).collect()
    assert [(raw and bytes(raw), number) for raw, number in read] == [*zip(raws, numbers, strict=True)]
    with pytest.raises(Exception, match="reads 8 bytes, but the value has 3: 616263"):
        spark.createDataFrame([(b"abc",)], "raw binary").select(Long().decode(F.col("raw"))).collect()
    texts = ['{"a":1}', '{"a":"x"}', "nope", None, '{"b":2}', b"42"]
    frame = spark.createDataFrame(
        [(text.encode() if isinstance(text, str) else text,) for text in texts], "raw binary"
    )
    forgiving = Json("a bigint", skip_malformed=True).decode(F.col("raw"))
    assert [row and row.a for (row,) in frame.select(forgiving).collect()] == [
        1,
        None,
        None,
        None,
        None,
        None,
    ]
    assert [row is None for (row,) in frame.select(forgiving).collect()] == [
        False, True, True, True, False, True,
    ]  # fmt: skip
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        frame.select(Json("a bigint").decode(F.col("raw"))).collect()
    assert frame.where(F.col("raw") == b"42").select(Text("bigint").decode(F.col("raw"))).first()[0] == 42


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
        assert counted.frame.schema["value"].dataType.simpleString() == "bigint"
        counted.join(other, lambda count, price: F.concat_ws("@", count, price)).to(joined)
        app.run_available()

    send(broker, orders, ("a", "1"), ("a", "2"), ("b", "1"))
    send(broker, prices, ("a", "9"), ("c", "3"))
    run()
    assert newest(received(broker, joined, 4)) == {"a": "2@9"}
    send(broker, prices, ("b", "4"), ("a", None))
    run()
    assert newest(received(broker, joined, 6)) == {"b": "1@4"}
    send(broker, stock, ("d", "0"))
    whole = make_app("whole", startingOffsets="latest")  # of streams: tables are read from their beginning
    one, two = (whole.table(name, key=Text(), value=Text()) for name in (prices, stock))
    one.join(two, lambda price, count: F.concat_ws("/", price, count), how="outer").to(f"{joined}-outer")
    whole.run_available()
    assert newest(received(broker, f"{joined}-outer", 5)) == {"b": "4", "c": "3", "d": "0"}


def test_one_operation_after_the_other(
    make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make
) -> None:
    """Duplicates out, an outer join, windows of its results, windows of those: nothing counts as late. And sessions."""
    from pyspark.sql import functions as F

    from kcli.spark.streams import Session, Text, Tumbling

    left, right, out, sessions = topic(), topic(), topic(), topic()
    twice = [("a", "l1", 0), ("a", "l1", 500), ("b", "l2", 1_000), ("b", "x", 10_999)]
    send(broker, left, *twice, (None, "l3", 2_000), ("end", "l", 3_600_000))
    send(
        broker,
        right,
        ("a", "r1", 5_000),
        ("c", "r2", 5_000),
        ("b", "too late", 21_000),
        ("end", "r", 3_600_000),
    )
    app = make_app("chain")
    lefts, rights = (app.stream(name, key=Text(), value=Text()) for name in (left, right))
    joined = lefts.deduplicate(within="10 seconds").join(
        rights, lambda one, two: F.concat_ws("+", one.value, two.value), within="10 seconds", how="outer"
    )
    minutes = joined.group_by(lambda r: F.substring(r.value, 1, 1)).windowed_by(Tumbling("1 minute"))
    stream = minutes.aggregate(all=lambda r: F.sort_array(F.collect_list(r.value))).suppress().to_stream()
    quarters = stream.group_by(lambda r: F.lit("quarter")).windowed_by(Tumbling("15 minutes"))
    quarters.reduce(lambda r: F.sort_array(F.flatten(F.collect_list(r.value["all"])))).suppress().to(out)
    lefts.group_by_key().windowed_by(Session("10 seconds")).count().to(sessions)
    app.run_available()
    ((key, value),) = received(broker, out, 1)
    assert json.loads(key or "")["key"] == "quarter"
    assert json.loads(value) == ["l1+r1", "l2", "l3", "r2", "too late", "x"]
    counts = {tuple(json.loads(key or "").values()): value for key, value in received(broker, sessions, 2)}
    assert counts == {
        ("a", START_MS, START_MS + 10_500): "2", ("b", START_MS + 1_000, START_MS + 20_999): "2",
    }  # fmt: skip


def test_a_late_record_changes_only_windows_within_their_grace(
    make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make
) -> None:
    """One that comes within the grace changes its window, one that comes later does not. Windows as a table's keys."""
    from kcli.spark.streams import Hopping, Text

    source, table = topic(), topic()

    def run() -> Any:
        app = make_app("late")
        windows = app.stream(source, key=Text()).group_by_key()
        counted = windows.windowed_by(Hopping("1 minute", "30 seconds", grace="10 seconds"))
        stream = counted.count().to_table(table)
        app.run_available()
        return stream

    send(broker, source, ("a", "1", 5_000), ("a", "2", 100_000))  # from here on, 90 s is late
    run()
    send(broker, source, ("a", "late", 20_000), ("a", "late for one window", 85_000))
    stream = run()
    assert stream.frame.schema.simpleString().startswith(
        "struct<key:struct<key:string,start:bigint,end:bigint>,value:bigint,"
    )
    at = lambda second: (START_MS + second * 1_000, START_MS + (second + 60) * 1_000)  # noqa: E731
    by_key = newest(received(broker, table, 5))
    assert {(window["start"], window["end"]): by_key[key] for key in by_key for window in [json.loads(key or "")]} == {
        at(-30): "1", at(0): "1", at(60): "2", at(90): "1",
    }  # fmt: skip


def test_state_of_ones_own(make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make) -> None:
    """Says how often a value was there before, and forgets the key at `stop`."""
    from kcli.spark.streams import Text

    source, target = topic(), topic()

    def seen(key: str, values: list[str], state: dict[str, Any] | None) -> tuple[list[tuple[str, int]], Any]:
        count = 0 if state is None else state["count"]
        sent = [(value, count + nth) for nth, value in enumerate(values)]
        return sent, None if "stop" in values else {"count": count + len(values)}

    records = [("a", "x", 1), ("a", "y", 2), ("a", "stop", 3), ("b", "z", 3), (None, "n", 4), ("a", "new", 4)]
    send(broker, source, *records)
    app = make_app("state", maxOffsetsPerTrigger="2")
    stream = app.stream(source, key=Text(), value=Text())
    stream.process(seen, state="count bigint", output="value string, before bigint").to(target)
    app.run_available()
    states = [(key, *json.loads(value).values()) for key, value in received(broker, target, 5)]
    assert sorted(states) == [("a", "new", 0), ("a", "stop", 2), ("a", "x", 0), ("a", "y", 1), ("b", "z", 0)]


def test_running_until_asked_or_broken(
    make_app: Callable[..., Streams], broker: BrokerProcess, topic: Make
) -> None:
    from pyspark.errors import StreamingQueryException

    from kcli.spark.streams import Text

    source = topic()
    send(broker, source, ("a", "1"))
    seen = []

    def ask_to_stop(frame: DataFrame, batch: int) -> None:
        seen.append((batch, [row.value for row in frame.collect()]))
        os.kill(os.getpid(), signal.SIGTERM)

    def fail(frame: DataFrame, batch: int) -> None:
        raise RuntimeError("the user's function is wrong")

    app = make_app("asked")
    app.stream(source, value=Text()).for_each_batch(ask_to_stop, name="each")
    app.run()
    assert seen[0] == (0, ["1"])
    app = make_app("broken")
    app.stream(source, value=Text()).for_each_batch(lambda frame, batch: None, name="fine")
    app.stream(source, value=Text()).for_each_batch(fail, name="fails")
    with pytest.raises(StreamingQueryException, match="the user's function is wrong"):
        app.run(interval="1 second")
    assert not app.spark.streams.active


def test_an_incomplete_application_is_refused(make_app: Callable[..., Streams], spark: SparkSession) -> None:
    from kcli.errors import KcliError
    from kcli.spark.streams import Json, Streams

    with pytest.raises(ValueError, match="application_id"):
        Streams(spark, "a b", bootstrap_servers="x:1", checkpoint="/c")
    with pytest.raises(KcliError, match="has no query"):
        make_app().run_available()
    with pytest.raises(ValueError, match="has no schema"):
        make_app().stream("t", value=Json())
    with pytest.raises(ValueError, match="names no topic"):
        make_app().stream()


def test_steps_that_cannot_follow_are_refused(
    make_app: Callable[..., Streams], spark: SparkSession, topic: Make
) -> None:
    from pyspark.sql import functions as F

    from kcli.errors import KcliError
    from kcli.spark.streams import Text, Tumbling

    app = make_app()
    stream = app.stream(topic(), key=Text(), value=Text())
    counts = stream.group_by_key().count()
    minutes = stream.group_by_key().windowed_by(Tumbling("1 minute")).count()
    changes = counts.to_stream()
    for name, step in {
        "group_by_key": changes.group_by_key,
        "group_by": lambda: minutes.to_stream().group_by(lambda r: r.key),
        "deduplicate": lambda: changes.deduplicate(within="1 minute"),
        "join": lambda: changes.join(stream, lambda one, two: one.value, within="1 minute"),
        "process": lambda: changes.process(lambda *_: ([], None), state="a int", output="b int"),
    }.items():
        with pytest.raises(ValueError, match=f"{name} of an aggregate's changes.*to_table"):
            step()
    final = minutes.suppress().to_stream()
    for step in (final.group_by_key, lambda: stream.join(final, lambda a, b: a.value, within="1 minute")):
        with pytest.raises(ValueError, match="key and window is not possible: choose a new key"):
            step()
    with pytest.raises(ValueError, match="windows"):
        counts.suppress()
    with pytest.raises(ValueError, match="join: key is string here and int there"):
        stream.join(stream.select_key(lambda r: F.lit(1)), lambda a, b: a.value, within="1 minute")
    with pytest.raises(ValueError, match="key= is not for records of windows"):
        minutes.to("t", key=Text())
    with pytest.raises(ValueError, match="name is 'a/b'"):
        stream.to("t", name="a/b")
    with pytest.raises(ValueError, match="a table must be a topic to be joined"):
        stream.join_table(counts, lambda r, value: value)
    final.group_by(lambda r: r.key).count().to("t")
    with pytest.raises(KcliError, match=r"query to-t: .*through or to_table"):
        app.run_available()
    provider = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(provider)
    spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(ValueError, match=r"RocksDB.*kcli spark-submit"):
            stream.process(lambda *_: ([], None), state="a int", output="b int")
    finally:
        spark.conf.set(provider, before)
