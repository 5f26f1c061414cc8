"""The HTTP connectors against a server of the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kcli.config.definition import ConfigError
from kcli.connectors.http.keys import SINK_KEYS, SOURCE_KEYS, status_codes
from kcli.connectors.http.pointers import resolve
from kcli.connectors.http.sink import HttpSinkConnector, HttpSinkTask
from kcli.connectors.http.source import HttpSourceConnector, HttpSourceTask
from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.formats.connect.errors import ConnectException, DataException, RetriableException
from kcli.formats.connect.schema import INT32_SCHEMA, STRING_SCHEMA, struct_schema
from kcli.formats.connect.structs import Struct
from rigs.connectors import Reports, SinkContext, SourceContext, StoredOffsets, dotted, offset_reader
from rigs.http_target import HttpTarget, Reply, SentRequest, http_target

VALUE = struct_schema({"a": INT32_SCHEMA})


def record(number: int, value: object = "struct", key: object = None, topic: str = "t") -> SinkRecord:
    schema = None
    if value == "struct":
        value, schema = Struct(VALUE, {"a": number}), VALUE
    return SinkRecord(
        topic, 0, number, value, schema, key,
        original_topic=topic, original_partition=0, original_offset=number,
    )  # fmt: skip


@contextmanager
def sink(url: str, reporter: Reports | None = None, **keys: str) -> Iterator[HttpSinkTask]:
    task = HttpSinkTask()
    config = {"http.api.url": url, "retry.backoff.ms": "5", **dotted(keys)}
    assert HttpSinkConnector().validate(config) == {}
    task.context = SinkContext(config, reporter)
    task.start(config)
    try:
        yield task
    finally:
        task.stop()


def timeouts(task: HttpSinkTask) -> list[int]:
    assert isinstance(task.context, SinkContext)
    return task.context.timeouts


def bodies(target: HttpTarget) -> list[object]:
    return [json.loads(request.body) if request.body else None for request in target.requests]


def test_each_record_is_one_request() -> None:
    with http_target() as target, sink(f"{target.url}/to/${{topic}}/${{key}}") as task:
        task.put([record(1, key="a b"), record(2, {"x": [1.5, None]}, key=7)])
        assert [(request.method, request.path) for request in target.requests] == [
            ("POST", "/to/t/a%20b"), ("POST", "/to/t/7")
        ]  # fmt: skip
        assert bodies(target) == [{"a": 1}, {"x": [1.5, None]}]
        assert target.requests[0].headers["Content-Type"] == "application/json"
        assert target.connections == 1


def test_batches_have_neighbours_of_the_same_url() -> None:
    with (
        http_target() as target,
        sink(f"{target.url}/${{topic}}", batch_max_size="2", request_method="PUT") as task,
    ):
        task.put([record(1), record(2), record(3), record(4, topic="u"), record(5)])
        assert [(request.path, body) for request, body in zip(target.requests, bodies(target), strict=True)] == [
            ("/t", [{"a": 1}, {"a": 2}]), ("/t", [{"a": 3}]), ("/u", [{"a": 4}]), ("/t", [{"a": 5}])
        ]  # fmt: skip


def test_strings_are_sent_as_they_are() -> None:
    keys = {
        "request_body_format": "string",
        "batch_max_size": "9",
        "batch_prefix": "",
        "batch_suffix": "",
        "batch_separator": "\\n",
    }
    with http_target() as target, sink(target.url, headers="X-A: b |Content-Type:text/csv", **keys) as task:
        task.put([record(1, "a,b"), record(2, b"c,d"), record(3)])
        assert target.requests[0].body == b'a,b\nc,d\n{"a":3}'
        assert target.requests[0].headers["X-A"] == "b"
        assert target.requests[0].headers["Content-Type"] == "text/csv"


@pytest.mark.parametrize(
    ("keys", "header"),
    [
        ({"auth_type": "basic", "connection_user": "u", "connection_password": "p"}, "Basic dTpw"),
        ({"auth_type": "bearer", "bearer_token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_requests_have_a_login(keys: dict[str, str], header: str) -> None:
    with http_target() as target, sink(target.url, **keys) as task:
        task.put([record(1)])
        assert target.requests[0].headers["Authorization"] == header
        assert "t0ken" not in repr(task._requests)


def test_a_transient_error_is_tried_again_without_repetition() -> None:
    with http_target() as target, sink(target.url, max_retries="2") as task:
        target.answer = lambda request: Reply(
            503 if b"2" in request.body else 200, headers={"Retry-After": "1"}
        )
        records = [record(1), record(2), record(3)]
        for _ in range(2):
            with pytest.raises(RetriableException, match="status 503"):
                task.put(records)
        assert timeouts(task) == [1000, 1000]
        target.answer = lambda request: Reply()
        task.put(records)
        assert bodies(target) == [{"a": 1}, {"a": 2}, {"a": 2}, {"a": 2}, {"a": 3}]
        task.put(records)
        assert len(target.requests) == 8


def test_records_that_a_transformation_routes_to_one_topic_are_all_sent() -> None:
    first, second = record(5, "of a", topic="a"), record(5, "of b", topic="b")
    first.topic = second.topic = "all"
    with http_target() as target, sink(target.url) as task:
        target.answer = lambda request: Reply(503 if b"of b" in request.body else 200)
        with pytest.raises(RetriableException):
            task.put([first, second])
        target.answer = lambda request: Reply()
        task.put([first, second])
        assert bodies(target) == ["of a", "of b", "of b"]


def test_pauses_double_up_to_the_longest() -> None:
    with (
        http_target(lambda request: Reply(500)) as target,
        sink(target.url, retry_backoff_max_ms="15") as task,
    ):
        for _ in range(4):
            with pytest.raises(RetriableException):
                task.put([record(1)])
        assert timeouts(task) == [5, 10, 15, 15]


def test_refused_records_are_reported_alone() -> None:
    reports = Reports()
    with http_target() as target, sink(target.url, reports, batch_max_size="3") as task:
        target.answer = lambda request: Reply(422 if b"2" in request.body else 200, b"no twos")
        task.put([record(1), record(2), record(3)])
    ((refused, error),) = reports.reported
    assert refused.offset == 2
    assert "status 422: no twos" in str(error)
    with http_target(lambda request: Reply(422)) as target, sink(target.url) as task:
        with pytest.raises(ConnectException, match="status 422") as raised:
            task.put([record(1)])
        assert not isinstance(raised.value, RetriableException)


def test_a_single_record_of_a_refused_batch_is_tried_again() -> None:
    reports = Reports()

    def busy(request: SentRequest) -> Reply:
        sent = json.loads(request.body)
        return Reply(422 if len(sent) > 1 else 503 if sent == [{"a": 2}] else 200)

    with http_target(busy) as target, sink(target.url, reports, batch_max_size="3") as task:
        records = [record(1), record(2), record(3)]
        for _ in range(2):
            with pytest.raises(RetriableException, match="status 503"):
                task.put(records)
        assert timeouts(task) == [5, 10]
        target.answer = lambda request: Reply()
        task.put(records)
        assert bodies(target)[1:] == [
            [{"a": 1}], [{"a": 2}], [{"a": 2}, {"a": 3}], [{"a": 2}], [{"a": 2}, {"a": 3}]
        ]  # fmt: skip
        assert reports.reported == []


def test_the_last_retry_reports_the_records() -> None:
    reports = Reports()
    with (
        http_target(lambda request: Reply(500)) as target,
        sink(target.url, reports, max_retries="0") as task,
    ):
        task.put([record(1), record(2)])
        assert [refused.offset for refused, _ in reports.reported] == [1, 2]


def test_null_values_are_ignored_deleted_or_refused() -> None:
    records = [record(1, None, key="k"), record(2, key="k")]
    for behavior, methods in (("ignore", ["POST"]), ("delete", ["DELETE", "POST"])):
        with (
            http_target() as target,
            sink(f"{target.url}/${{key}}", behavior_on_null_values=behavior) as task,
        ):
            task.put(records)
            assert [request.method for request in target.requests] == methods
    with (
        http_target() as target,
        sink(target.url, behavior_on_null_values="fail") as task,
        pytest.raises(ConnectException, match="has no value"),
    ):
        task.put(records)
    with (
        http_target() as target,
        sink(f"{target.url}/${{key}}") as task,
        pytest.raises(ConnectException, match=r"\$\{key\} needs a text or a number"),
    ):
        task.put([record(1)])


def test_a_server_that_is_away_is_tried_again() -> None:
    with http_target() as target:
        url = target.url
    with sink(url) as task, pytest.raises(RetriableException, match="refused"):
        task.put([record(1)])


@pytest.mark.parametrize("key", ["", ".", ".."])
def test_a_key_that_leads_to_another_path_is_refused(key: str) -> None:
    reports = Reports()
    with (
        http_target() as target,
        sink(f"{target.url}/items/${{key}}", reports, behavior_on_null_values="delete") as task,
    ):
        task.put([record(1, None, key=key), record(2, None, key="..a"), record(3, key=True)])
    assert [request.path for request in target.requests] == ["/items/..a", "/items/true"]
    assert [refused.offset for refused, _ in reports.reported] == [1]


def test_half_a_character_becomes_a_question_mark() -> None:
    with (
        http_target() as target,
        sink(f"{target.url}/${{key}}", request_body_format="string") as task,
    ):
        task.put([record(1, "a\ud800b", key="\udc00")])
    (request,) = target.requests
    assert (request.path, request.body) == ("/%3F", b"a?b")


def test_an_answer_that_is_cut_off_is_tried_again() -> None:
    with (
        http_target(lambda request: Reply(body=b"[1, 2", missing_bytes=3)) as target,
        source(target.url) as task,
    ):
        assert task.poll() is None
        target.answer = lambda request: Reply(body=b"[1, 2]")
        assert [found.value for found in task.poll()] == [1, 2]


def test_a_token_never_appears_in_an_error() -> None:
    def config(token: str) -> dict[str, str]:
        return {"http.api.url": "http://h", "auth.type": "bearer", "bearer.token": token}

    for token in ("s3cret\nx", "s3cret\u20ac"):
        errors = HttpSinkConnector().validate(config(token))
        assert errors == {"bearer.token": ["bearer.token has a character that a header cannot have"]}
    for header in ("Authorization: s3cret\u20ac", "Authorization: s3cret\nx"):
        with pytest.raises(ConfigError) as raised:
            SINK_KEYS.parse({"http.api.url": "http://h", "headers": header})
        assert "s3cret" not in str(raised.value)
    with http_target() as target, sink(target.url, auth_type="bearer", bearer_token="s3cret\n") as task:
        task.put([record(1)])
    assert target.requests[0].headers["Authorization"] == "Bearer s3cret", "as in a file with a line break"


def test_a_redirect_is_an_error() -> None:
    with (
        http_target(lambda request: Reply(302, headers={"Location": "/x"})) as target,
        sink(target.url) as task,
        pytest.raises(ConnectException, match="status 302"),
    ):
        task.put([record(1)])


@contextmanager
def source(url: str, stored: StoredOffsets | None = None, **keys: str) -> Iterator[HttpSourceTask]:
    task = HttpSourceTask()
    config = {
        "http.url": url,
        "topic": "out",
        "poll.interval.ms": "1",
        "retry.backoff.ms": "1",
        **dotted(keys),
    }
    assert HttpSourceConnector().validate(config) == {}
    task.context = SourceContext(config, offset_reader(stored or StoredOffsets()))
    task.start(config)
    try:
        yield task
    finally:
        task.stop()


def offsets(records: list[SourceRecord] | None) -> list[object]:
    return [found.source_offset for found in records or []]


def orders(request: SentRequest) -> Reply:
    """The orders from 1 to 5 after a number, two on each page."""
    after = int(request.path.rpartition("=")[2])
    page = [{"id": number} for number in range(after + 1, min(after + 3, 6))]
    following = f"/orders?after={page[-1]['id']}" if page and page[-1]["id"] < 5 else None
    return Reply(body=json.dumps({"items": page, "next": following}).encode())


def test_pages_are_read_up_to_the_last() -> None:
    keys = {
        "records_pointer": "/items",
        "offset_pointer": "/id",
        "key_pointer": "/id",
        "next_pointer": "/next",
    }
    with http_target(orders) as target:
        url = f"{target.url}/orders?after=${{offset}}"
        with source(url, offset_initial="0", **keys) as task:
            first = task.poll()
            assert (first[0].topic, first[0].value, first[0].key, first[0].key_schema) == (
                "out",
                {"id": 1},
                "1",
                STRING_SCHEMA,
            )
            assert first[0].source_partition == {"url": url}
            assert offsets(first) == [{"offset": 1}, {"offset": 2}]
            assert offsets(task.poll()) == [{"offset": 3}, {"offset": 4}]
            assert offsets(task.poll()) == [{"offset": 5}]
            assert task.poll() is None
        with source(url, StoredOffsets([({"url": url}, {"offset": 4})]), **keys) as task:
            assert offsets(task.poll()) == [{"offset": 5}]


def test_an_unchanged_answer_is_not_read_again() -> None:
    def answer(request: SentRequest) -> Reply:
        if request.headers.get("If-None-Match") == '"v1"':
            return Reply(304)
        return Reply(body=b'[{"a": 1}, 5, "x"]', headers={"ETag": '"v1"'})

    with http_target(answer) as target, source(target.url) as task:
        assert [found.value for found in task.poll()] == [{"a": 1}, 5, "x"]
        assert task.poll() is None
        assert offsets([]) == []


def test_a_tag_counts_only_for_its_own_url() -> None:
    last_page = [1]

    def answer(request: SentRequest) -> Reply:
        tag = '"1"'  # the same for each URL, as the number of a version is
        if request.headers.get("If-None-Match") == tag:
            return Reply(304)
        page = {"/": {"items": [0], "next": "/last"}, "/last": {"items": last_page, "next": "/last"}}
        return Reply(body=json.dumps(page[request.path]).encode(), headers={"ETag": tag})

    with (
        http_target(answer) as target,
        source(f"{target.url}/", records_pointer="/items", next_pointer="/next") as task,
    ):
        assert [found.value for _ in range(2) for found in task.poll()] == [0, 1]
        last_page.append(2)
        assert [found.value for _ in range(2) for found in task.poll()] == [0, 1, 2]


def test_errors_of_a_poll_are_tried_again_and_then_fail() -> None:
    with http_target(lambda request: Reply(429)) as target, source(target.url, max_retries="2") as task:
        assert task.poll() is None
        assert task.poll() is None
        with pytest.raises(ConnectException, match="status 429"):
            task.poll()
        target.answer = lambda request: Reply(404)
        with pytest.raises(ConnectException, match="status 404"):
            task.poll()


@pytest.mark.parametrize(
    ("answer", "keys", "message"),
    [
        (b"[{}]", {"offset_pointer": "/id"}, "no text and no number at /id"),
        (
            b'{"next": "https://elsewhere/x"}',
            {"next_pointer": "/next"},
            "on another server: https://elsewhere/",
        ),
        (b"[" + b" " * 99 + b"]", {"response_max_bytes": "50"}, "more than 50 bytes"),
        (b"<html>", {}, "Converting byte"),
    ],
)
def test_unfit_answers_fail_the_task(answer: bytes, keys: dict[str, str], message: str) -> None:
    with (
        http_target(lambda request: Reply(body=answer)) as target,
        source(target.url, **keys) as task,
        pytest.raises((ConnectException, DataException), match=message),
    ):
        task.poll()


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a": [{"b/c": 1, "~": 2}]}),
        ("/a/0/b~1c", 1),
        ("/a/0/~0", 2),
        ("/a/1", None),
        ("/a/x", None),
        ("/a/0/b~1c/d", None),
    ],
)
def test_json_pointers_find_values(pointer: str, value: object) -> None:
    assert resolve(pointer, {"a": [{"b/c": 1, "~": 2}]}) == value


def test_status_codes_are_codes_and_ranges() -> None:
    assert status_codes("429, 500-502") == {429, 500, 501, 502}
    assert 599 in status_codes("500-")
    for wrong in ("x", "600", "502-500", "-5"):
        with pytest.raises(ValueError):
            status_codes(wrong)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http.api.url", "ftp://h/"), ("http.api.url", "https://"), ("http.api.url", "https://u:p@h/"),
        ("headers", "novalue"),
        ("headers", "A:b\nC"), ("retry.on.status.codes", "5xx"), ("batch.max.size", "0"), ("auth.type", "magic"),
    ],
)  # fmt: skip
def test_invalid_keys_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SINK_KEYS.parse({"http.api.url": "http://h", key: value})
    assert "u:p" not in str(raised.value)


def test_a_login_needs_its_keys() -> None:
    config = {"http.api.url": "http://h", "auth.type": "bearer"}
    assert HttpSinkConnector().validate(config) == {"bearer.token": ["auth.type=bearer needs bearer.token"]}
    assert HttpSinkConnector().validate({"http.api.url": "nonsense"}) == {}


def test_offsets_of_a_poll_may_be_set() -> None:
    connector = HttpSourceConnector()
    connector.start({"http.url": "http://h", "topic": "t"})
    assert connector.task_configs(5) == [connector.config]
    assert connector.alter_offsets({}, [({"url": "http://h"}, {"offset": 5}), (None, None)])
    for partition in (None, {"table": "t"}):
        with pytest.raises(ConnectException, match="Expected the partition"):
            connector.alter_offsets({}, [(partition, {"offset": 5})])
    assert set(SOURCE_KEYS) >= {"http.url", "topic"}
