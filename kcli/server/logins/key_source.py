"""The public keys of a server that signs bearer tokens. A thread fetches the keys at regular intervals (KIP-768).

If a fetch fails, the old keys stay valid. Before the first fetch no key is known, so every token is refused. The thread
also parses the keys, so the event loop never waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor

from kcli.config.definition import ConfigError
from kcli.security.bearer.key_set import (
    KEY_SET_BYTES_MAX,
    KeySet,
    KeySetError,
    VerificationKey,
    parse_key_set,
)
from kcli.security.bearer.settings import KeySetSettings
from kcli.security.http_calls import called
from kcli.security.tls.contexts import client_tls

_log = logging.getLogger("kcli.server.KeySource")

FETCH_LIMIT_SECONDS = 10.0
"""The longest time of a fetch, if sasl.login.read.timeout.ms is not set. There is a limit, because a fetch occupies one
of a few threads."""
EXPEDITED_INTERVAL_SECONDS = 10.0
"""The shortest time between two fetches because of unknown key ids. Any client can name such an id, so without a limit
a client could make the node call the token server all the time."""
MISSING_SECONDS = 60.0
"""The time for which an unknown key id causes no further fetch, as in Kafka."""
MISSING_IDS_MAX = 16
"""The most unknown key ids that are remembered, as in Kafka."""
KEY_ID_CHARACTERS_MAX = 1000
"""The longest key id that causes a fetch, as in Kafka."""


class KeySource:
    """The current key set of one URL or file."""

    def __init__(
        self, settings: KeySetSettings, executor: Executor | None, fetch: Callable[[KeySetSettings], bytes]
    ) -> None:
        """`fetch` returns the bytes of the key set. It runs in a thread of `executor`, and may raise OSError."""
        self._settings = settings
        self._executor = executor
        self._fetch = fetch
        self._keys = KeySet()
        self._expedited = asyncio.Event()
        self._expedited_at = float("-inf")
        self._missing: OrderedDict[str, float] = OrderedDict()

    def load(self) -> None:
        """Fetches the key set now. Raises KeySetError or OSError."""
        self._keys = self._fetched()

    def _fetched(self) -> KeySet:
        return parse_key_set(self._fetch(self._settings))

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        key = self._keys.find(key_id, algorithm)
        if key is None and key_id is not None:
            self._miss(key_id)
        return key

    def _miss(self, key_id: str) -> None:
        now = asyncio.get_running_loop().time()
        known = self._missing.get(key_id)
        if len(key_id) > KEY_ID_CHARACTERS_MAX or (known is not None and now < known + MISSING_SECONDS):
            return
        if now < self._expedited_at + EXPEDITED_INTERVAL_SECONDS:
            return
        self._missing[key_id] = self._expedited_at = now
        self._missing.move_to_end(key_id)
        if len(self._missing) > MISSING_IDS_MAX:
            self._missing.popitem(last=False)
        self._expedited.set()

    async def run(self) -> None:
        """Fetches the key set until the task is cancelled."""
        settings = self._settings
        backoff = settings.backoff_seconds
        while True:
            self._expedited.clear()
            if await self._refresh():
                wait, backoff = settings.refresh_seconds, settings.backoff_seconds
            else:
                wait, backoff = backoff, min(2 * backoff, settings.backoff_max_seconds)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._expedited.wait(), wait)

    async def _refresh(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            self._keys = await loop.run_in_executor(self._executor, self._fetched)
        except Exception as error:  # the refresh must continue
            is_usual = isinstance(error, OSError | KeySetError)
            _log.warning(
                "The keys of %s cannot be fetched, and the %d keys from before stay valid: %s",
                self._settings.url,
                len(self._keys.keys),
                error if is_usual else f"{type(error).__name__}: {error}",
            )
            return False
        return True


def fetch_key_set(settings: KeySetSettings) -> bytes:
    """Reads the key set from its file, or gets it from its URL. A redirect is an error. Raises OSError and
    KeySetError.
    """
    if settings.path is not None:
        with open(settings.path, "rb") as file:
            return file.read(KEY_SET_BYTES_MAX + 1)
    return _called(settings)


def _called(settings: KeySetSettings) -> bytes:
    from urllib.request import Request  # imported late, because few nodes need this module

    request = Request(settings.url, headers={"Accept": "application/json"})
    limit = settings.timeout_seconds or FETCH_LIMIT_SECONDS
    return called(request, _context(settings), limit, KEY_SET_BYTES_MAX)


def _context(settings: KeySetSettings) -> ssl.SSLContext:
    """The TLS context for the URL. Options of the login module may name a trust store, as in Kafka."""
    try:
        return client_tls(settings.module_options.get).context()
    except ConfigError as error:
        raise OSError(str(error)) from error
