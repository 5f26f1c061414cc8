"""The sink of search engines against a small engine that reads the _bulk API strictly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connectors.records import SinkRecord
from kcli.connectors.search.documents import index_name, mapping
from kcli.connectors.search.keys import SEARCH_KEYS, SearchSettings
from kcli.connectors.search.sink import SearchSinkConnector, SearchSinkTask
from kcli.formats.connect import schema as schemas
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import array_schema, decimal_schema, struct_schema
from kcli.formats.connect.structs import Struct
from rigs import search_engine
from rigs.search_engine import SearchEngine

SCHEMA = struct_schema({"n": schemas.INT32_SCHEMA, "price": decimal_schema(2, optional=True)})


@dataclass
class Reporter:
    reported: list[int] = field(default_factory=list)

    def report(self, record: SinkRecord, _error: Exception) -> None:
        self.reported.append(record.offset)


@dataclass
class Context:
    errant_record_reporter: Reporter | None = field(default_factory=Reporter)
    timeout_ms: int | None = None

    def timeout(self, milliseconds: int) -> None:
        self.timeout_ms = milliseconds


@contextlib.contextmanager
def sink(engine: SearchEngine, **keys: str) -> Iterator[Any]:
    with search_engine.running(engine) as url:
        task: Any = SearchSinkTask()
        task.context = Context()
        config = {"connection.url": url, "schema.ignore": "true", "linger.ms": "0", "retry.backoff.ms": "0"}
        task.start(config | {name.replace("_", "."): value for name, value in keys.items()})
        try:
            yield task
        finally:
            task.stop()


def record(offset: int, key: object = "k", value: object = None, **more: Any) -> SinkRecord:
    return SinkRecord("Orders", 0, offset, value, key=key, **more)


def test_records_that_are_written_again_change_nothing() -> None:
    engine = SearchEngine()
    records = [record(0, "a", {"n": 1}), record(1, 7, {"n": 2}), record(2, "a", {"n": 3}), record(3, 7)]
    with sink(engine, behavior_on_null_values="delete") as task:
        for _ in range(2):
            task.put(records)
        assert engine.documents == {"orders": {"a": {"n": 3}}}
        task.put(records[:2])
    assert engine.documents == {"orders": {"a": {"n": 3}}}, "an older version is refused"


def test_without_keys_the_place_of_a_record_is_its_id() -> None:
    engine = SearchEngine()
    with sink(engine, key_ignore="true", batch_size="2") as task:
        task.put([record(n, None, {"n": n}) for n in range(5)])
    assert engine.documents == {"orders": {f"Orders+0+{n}": {"n": n} for n in range(5)}}
    assert engine.requests.count("POST /_bulk") == 3


def test_an_update_changes_only_the_fields_that_it_has() -> None:
    engine = SearchEngine()
    engine.refused_items = [429]
    with sink(engine, write_method="UPSERT") as task:
        task.put([record(0, "a", {"x": 1, "y": 1}), record(1, "a", {"x": 2}), record(2, "a", {"z": 3})])
    assert engine.documents["orders"]["a"] == {"x": 2, "y": 1, "z": 3}


def test_an_index_gets_the_types_of_the_schema() -> None:
    engine = SearchEngine()
    with sink(engine, schema_ignore="false") as task:
        value = Struct(SCHEMA, {"n": 1, "price": Decimal("1.20")})
        task.put([record(0, value=value, value_schema=SCHEMA)])
        assert engine.mappings == {
            "orders": {"properties": {"n": {"type": "integer"}, "price": {"type": "double"}}}
        }
        assert engine.documents["orders"]["k"] == {"n": 1, "price": 1.2}
        with pytest.raises(DataException, match=r"set schema\.ignore=true"):
            task.put([record(1, value={"n": 1})])
    nested = struct_schema({"list": array_schema(schemas.DATE_SCHEMA), "text": schemas.STRING_SCHEMA})
    assert mapping(nested)["properties"]["list"] == {"type": "date"}  # type: ignore[index]


def test_documents_without_room_are_sent_again() -> None:
    engine = SearchEngine()
    engine.refused_requests = [200 + 303, 429]
    engine.refused_items = [200, 429, 200, 503]
    with sink(engine) as task:
        task.put([record(n, str(n), {"n": n}) for n in range(4)])
        assert engine.documents["orders"] == {str(n): {"n": n} for n in range(4)}
        engine.refused_items = [429] * 20
        with pytest.raises(ConnectException, match="1 documents were refused 6 times"):
            task.put([record(9, "x", {"n": 9})])
        engine.refused_requests = [400]
        with pytest.raises(ConnectException, match="status 400"):
            task.put([record(10, "x", {"n": 9})])


@pytest.mark.parametrize("behavior", ["fail", "warn", "ignore"])
def test_a_malformed_document_fails_the_task_or_is_left_out(
    behavior: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = SearchEngine()
    engine.mappings["orders"] = {"properties": {"n": {"type": "integer"}}}
    engine.documents["orders"] = {}
    with sink(engine, behavior_on_malformed_documents=behavior) as task:
        records = [record(0, "a", {"n": "text"}), record(1, "b", {"n": 1})]
        if behavior == "fail":
            with pytest.raises(
                ConnectException, match=r"orders/a was refused with document_parsing_exception"
            ):
                task.put(records)
        else:
            task.put(records)
            assert task.context.errant_record_reporter.reported == [0]
            assert ("is left out" in caplog.text) == (behavior == "warn")
    assert engine.documents["orders"] == {"b": {"n": 1}}


def test_an_invalid_record_fails_the_task_or_is_left_out() -> None:
    invalid = [record(0, None, {"n": 1}), record(1, 1.5, {"n": 1}), record(2, "a", "text"), record(3, "a")]
    engine = SearchEngine()
    with sink(engine) as task:
        for item in invalid:
            with pytest.raises(DataException):
                task.put([item])
    with sink(engine, drop_invalid_message="true") as task:
        task.put([*invalid, record(4, "b", {"n": 1})])
        assert task.context.errant_record_reporter.reported == [0, 1, 2, 3]
    with sink(engine, behavior_on_null_values="ignore") as task:
        task.put([record(3, "b")])
    assert engine.documents == {"orders": {"b": {"n": 1}}}


@pytest.mark.parametrize("key", ["", "k" * 513, "é" * 257])
def test_a_key_that_would_refuse_a_whole_request_is_one_invalid_record(key: str) -> None:
    engine = SearchEngine()
    with sink(engine, drop_invalid_message="true") as task:
        task.put([record(0, key, {"n": 0}), record(1, "k" * 512, {"n": 1}), record(2, "\ud800", {"n": 2})])
        assert task.context.errant_record_reporter.reported == [0]
    assert engine.documents == {"orders": {"k" * 512: {"n": 1}, "?": {"n": 2}}}


def test_documents_that_were_not_written_are_never_committed() -> None:
    engine = SearchEngine()
    with sink(engine, linger_ms="60000", batch_size="2", max_retries="0") as task:
        task.put([record(0, "a", {"n": 0})])
        engine.refused_requests = [500, 500]
        with pytest.raises(ConnectException, match="status 500"):
            task.put([record(1, "b", {"n": 1}), record(2, "c", {"n": 2})])
        with pytest.raises(ConnectException, match="status 500"):
            task.flush({})  # the commit of a task that has failed
        task.flush({})
    assert engine.documents == {"orders": {key: {"n": n} for n, key in enumerate("abc")}}


def test_the_answer_of_another_server_is_one_clear_error() -> None:
    engine = SearchEngine()
    with sink(engine) as task:
        for answer in ([], {}, {"items": [{}]}, {"items": [{"index": {}}]}, {"items": ["x"]}):
            engine.bulk_answer = answer
            with pytest.raises(ConnectException, match="no answer of the _bulk API"):
                task.put([record(0, "a", {"n": 0})])


def test_documents_wait_for_others_until_a_flush() -> None:
    engine = SearchEngine()
    with sink(engine, linger_ms="60000") as task:
        task.put([record(0, "a", {"n": 1})])
        assert engine.documents["orders"] == {}
        assert task.context.timeout_ms == 60_000
        task.put([record(1, "b", {"n": 2})])
        task.flush({})
    assert len(engine.documents["orders"]) == 2
    assert engine.requests.count("POST /_bulk") == 1


def test_the_next_node_answers_for_one_that_is_down() -> None:
    engine = SearchEngine()
    with search_engine.running(engine) as url:
        task: Any = SearchSinkTask()
        task.context = Context()
        login = {"connection.username": "u", "connection.password": "p"}
        task.start(
            {"connection.url": f"http://127.0.0.1:9,{url}", "retry.backoff.ms": "0", "schema.ignore": "true"}
            | login
        )
        task.put([record(0, value={"n": 1})])
        task.flush({})
        task.stop()
    assert engine.documents["orders"]["k"] == {"n": 1}
    assert engine.headers[0]["Authorization"] == "Basic dTpw"


def test_keys_and_topics_that_cannot_work_are_refused() -> None:
    config = {"connection.url": "http://h:9200"}
    for wrong in (
        {"connection.url": "h:9200"},
        {"connection.url": ""},
        {"write.method": "x"},
        {"batch.size": "0"},
    ):
        with pytest.raises(ConfigError):
            SearchSettings.of(config | wrong)
    assert SearchSinkConnector().validate(config | {"connection.username": "u"}).keys() == {
        "connection.password"
    }
    assert (index_name("Ab"), index_name("..")) == ("ab", "dotdot")
    for topic in (
        "_a",
        "-a",
        "+a",
        "a" * 256,
        "",
        "*",
        "a*",
        "a,b",
        "a b",
        "a/b",
        'a"',
        "a#",
        "a\n",
        "\ud800",
    ):
        with pytest.raises(DataException):
            index_name(topic)


def test_the_example_file_has_known_keys() -> None:
    config = load(str(Path(__file__).resolve().parents[2] / "config/connect-search-sink.properties"))
    SearchSettings.of(config)
    assert not config.keys() - set(SEARCH_KEYS) - {"name", "connector.class", "tasks.max", "topics"}


def test_records_of_two_topics_in_one_index_are_documents_of_their_own() -> None:
    engine = SearchEngine()
    routed = [
        record(5, None, {"from": topic}, original_topic=topic, original_partition=0, original_offset=5)
        for topic in ("a", "b")
    ]
    with sink(engine, key_ignore="true") as task:
        task.put(routed)
    assert engine.documents == {"orders": {"a+0+5": {"from": "a"}, "b+0+5": {"from": "b"}}}
