"""The sink of search engines: records become documents, which the _bulk API writes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from kcli.config.definition import ConfigError
from kcli.connectors.http.requests import RequestFailed, Requests
from kcli.connectors.interface import Config, Offsets, SinkConnector, SinkTask
from kcli.connectors.records import SinkRecord
from kcli.connectors.search.documents import Document, DocumentMaker, mapping
from kcli.connectors.search.keys import FAIL, SEARCH_KEYS, WARN, SearchSettings
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import Schema
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("kcli.connectors.search")
_ANSWER_MAX_BYTES = 64 * 2**20
_CONFLICT, _NOT_FOUND, _TOO_MANY = 409, 404, 429
_MALFORMED = frozenset(
    (
        "mapper_parsing_exception",
        "document_parsing_exception",
        "illegal_argument_exception",
        "strict_dynamic_mapping_exception",
        "action_request_validation_exception",
    )
)
"""The errors of a document that no other attempt can change."""
_SHOWN_CHARACTERS = 200
_NDJSON, _JSON = {"Content-Type": "application/x-ndjson"}, {"Content-Type": "application/json"}


class SearchSinkTask(SinkTask):
    """Sends one request at a time, so documents with one id keep their order."""

    java_class = "io.confluent.connect.elasticsearch.ElasticsearchSinkTask"

    def start(self, config: Config) -> None:
        self._settings = settings = SearchSettings.of(config)
        self._maker = DocumentMaker(settings)
        self._requests = Requests(settings.requests, _ANSWER_MAX_BYTES)
        self._node = 0
        self._ready: set[tuple[str, Schema | None]] = set()
        self._documents: list[Document] = []
        self._oldest = 0.0

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not self._documents:
            self._oldest = time.monotonic()
        self._documents += self._made(records)
        age_ms = (time.monotonic() - self._oldest) * 1000
        if age_ms >= self._settings.linger_ms or len(self._documents) >= self._settings.batch_size:
            self.flush({})
        elif self._documents:
            self.context.timeout(max(1, self._settings.linger_ms))  # `put` is called again then

    def flush(self, offsets: Offsets) -> None:
        # Documents that are not written stay, because a commit after a failed `put` must fail too.
        for batch in list(self._batches(self._documents)):
            self._write(batch)
            del self._documents[: len(batch)]

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        # `flush` has written the documents, or their records come again.
        self._documents = []

    def stop(self) -> None:
        requests = getattr(self, "_requests", None)
        if requests is not None:
            requests.close()

    def _made(self, records: Sequence[SinkRecord]) -> Iterator[Document]:
        for record in records:
            try:
                document = self._maker.make(record)
                if document is not None:
                    self._prepare(document)
                    yield document
            except DataException as error:
                self._refuse(record, error, fails=not self._settings.drops_invalid)

    def _batches(self, documents: Sequence[Document]) -> Iterator[list[Document]]:
        """Requests of at most batch.size documents. An update ends a batch that has its document.

        So an update that is sent again never follows a later one.
        """
        batch: list[Document] = []
        size = 0
        ids: set[tuple[str, str]] = set()
        for document in documents:
            place = (document.index, document.id)
            is_full = len(batch) >= self._settings.batch_size or size >= self._settings.batch_bytes
            if is_full or (self._settings.upserts and place in ids):
                yield batch
                batch, size, ids = [], 0, set()
            batch.append(document)
            size += len(document.lines)
            ids.add(place)
        if batch:
            yield batch

    # Documents.

    def _write(self, documents: list[Document]) -> None:
        """Writes documents. Sends those again for which the search engine has no room now."""
        attempt = 1
        while documents:
            body = b"".join([document.lines for document in documents])
            answer = self._ask("POST", "/_bulk", body, _NDJSON)
            items = _items(answer)
            if len(items) != len(documents):
                raise ConnectException(f"_bulk has answered {len(items)} of {len(documents)} documents")
            busy = []
            for document, item in zip(documents, items, strict=True):
                if item["status"] == _TOO_MANY or item["status"] >= 500:
                    busy.append(document)
                elif item["status"] >= 300:
                    self._failed(document, item)
            if busy and attempt > self._settings.requests.max_retries:
                raise ConnectException(f"{len(busy)} documents were refused {attempt} times: {items}"[:1000])
            if busy:
                self._pause(attempt, f"{len(busy)} documents were refused")
            documents, attempt = busy, attempt + 1

    def _failed(self, document: Document, item: Mapping[str, Any]) -> None:
        """Handles a document that no other attempt can write."""
        status, error = item["status"], item.get("error") or {}
        if status == _CONFLICT and not self._settings.upserts:
            _log.debug("A newer version of %s/%s exists", document.index, document.id)
            return
        if status == _NOT_FOUND and document.record.value is None:
            return  # it was deleted before
        kind, reason = error.get("type"), error.get("reason")
        failure = ConnectException(
            f"The document {document.index}/{document.id} was refused with {kind}: {reason}"
        )
        is_malformed = kind in _MALFORMED
        self._refuse(document.record, failure, fails=not is_malformed or self._settings.malformed == FAIL)

    def _refuse(self, record: SinkRecord, error: Exception, *, fails: bool) -> None:
        if fails:
            raise error
        level = logging.WARNING if self._settings.malformed == WARN else logging.DEBUG
        _log.log(level, "%s-%d@%d is left out: %s", record.topic, record.partition, record.offset, error)
        if self.context.errant_record_reporter is not None:
            self.context.errant_record_reporter.report(record, error)

    # Indices.

    def _prepare(self, document: Document) -> None:
        """Makes the index of a document, with the types of the record's schema. Raises DataException."""
        is_typed = not self._settings.ignores_schema and document.record.value is not None
        schema = document.record.value_schema if is_typed else None
        key = document.index, schema
        if key in self._ready:
            return
        body = {"mappings": mapping(schema)} if is_typed else {}
        path = f"/{quote(document.index, safe='')}"
        stored = self._ask("GET", f"{path}?ignore_unavailable=true")
        if not stored:
            try:
                self._ask("PUT", path, json.dumps(body).encode(), _JSON)
            except ConnectException:
                # Another task may have made it meanwhile.
                stored = self._ask("GET", f"{path}?ignore_unavailable=true")
                if not stored:
                    raise
        if stored and is_typed and not any(item["mappings"].get("properties") for item in stored.values()):
            self._ask("PUT", f"{path}/_mapping", json.dumps(body["mappings"]).encode(), _JSON)
        self._ready.add(key)

    # Requests.

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of an answer. Takes the next node after an error that may pass. Raises ConnectException."""
        urls, attempt = self._settings.urls, 1
        while True:
            try:
                return json.loads(
                    self._requests.send(method, f"{urls[self._node]}{path}", body, headers).body
                )
            except RequestFailed as error:
                if not error.transient or attempt > self._settings.requests.max_retries:
                    raise ConnectException(str(error)) from error
                self._node = (self._node + 1) % len(urls)
                self._pause(attempt, str(error), error.wait_ms)
                attempt += 1
            except ValueError as error:
                raise ConnectException(f"{method} {path}: the answer is no JSON") from error

    def _pause(self, attempt: int, reason: str, wait_ms: int | None = None) -> None:
        pause_ms = self._requests.pause_ms(attempt, wait_ms)
        _log.warning("Attempt %d failed, the next one is in %d ms: %s", attempt, pause_ms, reason)
        time.sleep(pause_ms / 1000)


def _items(answer: Any) -> list[Any]:
    """The results of the documents. Raises ConnectException for the answer of another kind of server."""
    try:
        items = [next(iter(item.values())) for item in answer["items"]]
        if all(isinstance(item["status"], int) for item in items):
            return items
    except (AttributeError, KeyError, StopIteration, TypeError):
        pass
    raise ConnectException(f"This is no answer of the _bulk API: {json.dumps(answer)[:_SHOWN_CHARACTERS]}")


class SearchSinkConnector(SinkConnector):
    """Writes the records of topics to indices."""

    java_class = "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"
    config_def = SEARCH_KEYS
    task_class = SearchSinkTask

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        try:
            SEARCH_KEYS.parse(config)
        except ConfigError:
            return {}
        try:
            SearchSettings.of(config)
        except ConfigError as error:
            return {error.key or "connection.username": [error.message]}
        return {}

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The offsets are only in Kafka. A document keeps the newest version, so old records change nothing."""
        return True
