"""The HTTP source: it polls a URL, and each element of the answer becomes a record."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urljoin

from kcli.connectors.http.keys import SOURCE_KEYS, RequestSettings, login_errors, number, text
from kcli.connectors.http.pointers import resolve
from kcli.connectors.http.requests import Answer, RequestFailed, Requests
from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.schema import STRING_SCHEMA

_log = logging.getLogger("kcli.connectors.http")
_POLL_S = 1.0
"""The longest wait of `poll`."""
_STOP_S = 5.0
"""How long `stop` waits for an answer."""
OFFSET = "offset"
"""The key of an offset."""


def partition_of(url: str) -> Partition:
    return {"url": url}


class HttpSourceTask(SourceTask):
    """Reads one URL, page by page."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._busy = threading.Lock()
        self._next_poll = 0.0
        self._attempts = 0
        self._page: str | None = None
        """The URL of the next page, if the last answer has named one."""
        self._tag: tuple[str, str] | None = None
        """A URL and the ETag of its last answer, with which a server can tell that nothing has changed."""

    def start(self, config: Config) -> None:
        values = SOURCE_KEYS.parse(config)
        self._values = values
        self._url, self._topic = text(values, "http.url"), text(values, "topic")
        self._requests = Requests(RequestSettings.of(values), number(values, "response.max.bytes"))
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false"})
        stored = self.context.offsets.offset(partition_of(self._url))
        self._offset: object = (stored or {}).get(OFFSET, text(values, "offset.initial"))

    def poll(self) -> Sequence[SourceRecord] | None:
        pause_s = self._next_poll - time.monotonic()
        if pause_s > 0:
            self._stopping.wait(min(pause_s, _POLL_S))
        with self._busy:
            if self._stopping.is_set() or pause_s > _POLL_S:
                return None
            return self._read()

    def _read(self) -> Sequence[SourceRecord] | None:
        url = self._page or self._url.replace("${offset}", quote(str(self._offset), safe=""))
        try:
            answer = self._requests.send("GET", url, headers=self._headers(url))
        except RequestFailed as error:
            self._failed(error)
            return None
        self._attempts = 0
        return self._records(url, answer) or None

    def stop(self) -> None:
        self._stopping.set()
        requests = getattr(self, "_requests", None)
        if requests is not None and self._busy.acquire(timeout=_STOP_S):
            try:
                requests.close()
            finally:
                self._busy.release()

    def _headers(self, url: str) -> dict[str, str]:
        known_url, tag = self._tag or ("", "")
        return {"Accept": "application/json"} | ({"If-None-Match": tag} if url == known_url else {})

    def _failed(self, error: RequestFailed) -> None:
        self._attempts += 1
        if not error.transient or self._attempts > self._requests.settings.max_retries:
            raise ConnectException(str(error)) from error
        pause_ms = self._requests.pause_ms(self._attempts, error.wait_ms)
        _log.warning("Attempt %d failed, the next one is in %d ms: %s", self._attempts, pause_ms, error)
        self._next_poll = time.monotonic() + pause_ms / 1000

    def _records(self, url: str, answer: Answer) -> list[SourceRecord]:
        is_first, self._page = self._page is None, None
        self._next_poll = time.monotonic() + number(self._values, "poll.interval.ms") / 1000
        if answer.status == 304:
            return []
        tag = answer.headers.get("etag")
        self._tag = (url, tag) if tag and is_first else None
        if not answer.body:
            return []
        document = self._converter.to_connect(self._topic, answer.body).value
        following = self._pointed("next.pointer", document)
        if isinstance(following, str) and following and urljoin(url, following) != url:
            self._page, self._next_poll = urljoin(url, following), 0.0
            self._tag = None  # another page may change while this one does not
            self._check_page(self._page)
        elements = resolve(text(self._values, "records.pointer"), document)
        if elements is None:
            return []
        return [self._record(item) for item in (elements if isinstance(elements, list) else [elements])]

    def _record(self, item: object) -> SourceRecord:
        offset: Offset | None = None
        if text(self._values, "offset.pointer"):
            value = self._pointed("offset.pointer", item)
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                pointer = text(self._values, "offset.pointer")
                raise DataException(
                    f"A record has no text and no number at {pointer}, where its offset is expected"
                )
            self._offset = value
            offset = {OFFSET: value}
        key = self._pointed("key.pointer", item)
        return SourceRecord(
            partition_of(self._url), offset, self._topic, item, None,
            None if key is None else str(key), None if key is None else STRING_SCHEMA,
        )  # fmt: skip

    def _pointed(self, key: str, document: object) -> object:
        pointer = text(self._values, key)
        return resolve(pointer, document) if pointer else None

    def _check_page(self, page: str) -> None:
        """A page of another server would get the login of this one."""
        if urljoin(page, "/") != urljoin(self._url, "/"):
            raise ConnectException(f"The next page is on another server: {urljoin(page, '/')}")


class HttpSourceConnector(SourceConnector):
    """Polls a URL. One task reads it, because only one can follow its offset."""

    config_def = SOURCE_KEYS
    task_class = HttpSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [self.config]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        return login_errors(SOURCE_KEYS, config)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {"url"} or offset.keys() != {OFFSET}:
                raise ConnectException('Expected the partition {"url":URL} and the offset {"offset":VALUE}')
        return True
