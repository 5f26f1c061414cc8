"""The HTTP sink: each record, or each batch of records, becomes a request."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from kcli.connectors.http.keys import (
    DELETE,
    FAIL,
    JSON,
    SINK_KEYS,
    RequestSettings,
    login_errors,
    number,
    text,
)
from kcli.connectors.http.requests import RequestFailed, Requests
from kcli.connectors.interface import Config, SinkConnector, SinkTask
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.charsets import UTF_8
from kcli.formats.connect.errors import ConnectException, DataException, RetriableException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.json_converter import JsonConverter
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("kcli.connectors.http")
_NO_NAMES = ("", ".", "..")
"""The parts of a path that mean this directory or the one above. A DELETE there could delete all."""
_ANSWER_MAX_BYTES = 1024 * 1024
"""The longest answer to a record. The connector only shows its begin in errors."""


@dataclass(slots=True)
class _Request:
    method: str
    url: str
    records: list[SinkRecord] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


class HttpSinkTask(SinkTask):
    """Sends records. A request that fails for a while is sent again by the next `put` with the same records."""

    def start(self, config: Config) -> None:
        self._values = values = SINK_KEYS.parse(config)
        self._requests = Requests(RequestSettings.of(values), _ANSWER_MAX_BYTES)
        self._url, self._method = text(values, "http.api.url"), text(values, "request.method")
        self._nulls = text(values, "behavior.on.null.values")
        self._batch_size = number(values, "batch.max.size")
        self._around = [
            _unescaped(text(values, f"batch.{name}")) for name in ("prefix", "separator", "suffix")
        ]
        self._is_json = text(values, "request.body.format") == JSON
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false"})
        self._attempts = 0
        self._sent: set[tuple[str, int, int]] = set()
        """The records of a failed `put` that were sent or reported before the failure, and are not repeated."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        pending = [record for record in records if record.origin not in self._sent]
        for request in self._planned(pending):
            self._deliver(request)
        self._sent.clear()

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self._sent.clear()  # a user may set the offsets back, to send records again

    def stop(self) -> None:
        requests = getattr(self, "_requests", None)
        if requests is not None:
            requests.close()

    def _planned(self, records: Sequence[SinkRecord]) -> Iterator[_Request]:
        """Neighbours with the same method and URL become one request."""
        current: _Request | None = None
        for record in records:
            if record.value is None and self._nulls not in (DELETE, FAIL):
                continue
            try:
                method, url, body = self._parts(record)
            except DataException as error:
                self._refuse([record], error)
                continue
            full = current is not None and len(current.records) >= self._batch_size
            if (
                current is None
                or full
                or method == "DELETE"
                or (method, url) != (current.method, current.url)
            ):
                if current is not None:
                    yield current
                current = _Request(method, url)
            current.records.append(record)
            current.bodies.append(body)
        if current is not None:
            yield current

    def _parts(self, record: SinkRecord) -> tuple[str, str, bytes]:
        """The method, the URL and the body of a record. Raises DataException."""
        url = self._url.replace("${topic}", quote(record.topic, safe=""))
        if "${key}" in url:
            url = url.replace("${key}", _key_in_url(record.key))
        if record.value is None:
            if self._nulls == FAIL:
                raise DataException("The record has no value, and behavior.on.null.values=fail")
            return "DELETE", url, b""
        return self._method, url, self._body(record)

    def _body(self, record: SinkRecord) -> bytes:
        if not self._is_json:
            if isinstance(record.value, str):
                return UTF_8.encode(record.value)
            if isinstance(record.value, bytes | memoryview):
                return bytes(record.value)
        return self._converter.from_connect(record.topic, record.value_schema, record.value) or b""

    def _deliver(self, request: _Request) -> None:
        """Sends a request, or reports its records. Raises RetriableException if it may succeed later."""
        try:
            self._send(request)
        except RequestFailed as error:
            if error.transient and self._attempts < self._requests.settings.max_retries:
                self._attempts += 1
                pause_ms = self._requests.pause_ms(self._attempts, error.wait_ms)
                _log.warning(
                    "Attempt %d failed, the next one is in %d ms: %s", self._attempts, pause_ms, error
                )
                self.context.timeout(pause_ms)
                raise RetriableException(str(error)) from error
            if error.transient or len(request.records) == 1:
                self._refuse(request.records, error)
            else:
                self._deliver_one_by_one(request)
        self._attempts = 0
        self._sent.update(record.origin for record in request.records)

    def _send(self, request: _Request) -> None:
        headers = {"Content-Type": "application/json" if self._is_json else "text/plain; charset=utf-8"}
        own = {name.lower() for name in self._requests.settings.headers}
        body = request.bodies[0]
        if self._batch_size > 1 and request.method != "DELETE":
            prefix, separator, suffix = self._around
            body = prefix + separator.join(request.bodies) + suffix
        if request.method == "DELETE":
            self._requests.send("DELETE", request.url)
        else:
            self._requests.send(request.method, request.url, body, {} if "content-type" in own else headers)

    def _deliver_one_by_one(self, request: _Request) -> None:
        """Finds the records for which the server refuses a batch."""
        for record, body in zip(request.records, request.bodies, strict=True):
            self._deliver(_Request(request.method, request.url, [record], [body]))

    def _refuse(self, records: Sequence[SinkRecord], error: Exception) -> None:
        reporter = self.context.errant_record_reporter
        if reporter is None:
            raise ConnectException(f"The server does not accept a record: {error}") from error
        for record in records:
            reporter.report(record, error)
            self._sent.add(record.origin)


class HttpSinkConnector(SinkConnector):
    """Sends the records of topics to a URL."""

    config_def = SINK_KEYS
    task_class = HttpSinkTask

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        return login_errors(SINK_KEYS, config)

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        return True


def _key_in_url(key: object) -> str:
    """A key as a part of a path. Raises DataException for a key that would lead to another path."""
    if not isinstance(key, str | int | float):
        raise DataException(f"The key of a record is {type(key).__name__}: ${{key}} needs a text or a number")
    text = java_string(key) if isinstance(key, bool) else str(key)
    if text in _NO_NAMES:
        raise DataException(
            f"The key {text!r} of a record cannot stand for ${{key}}, because it names no part of a path"
        )
    return quote(UTF_8.encode(text), safe="")


def _unescaped(written: str) -> bytes:
    """The text of a key, whose value is trimmed. So a line break at its begin or end is written as \\n."""
    return written.replace("\\n", "\n").replace("\\t", "\t").encode()
