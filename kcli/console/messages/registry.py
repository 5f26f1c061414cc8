"""Gets schemas from a schema registry, and makes decoders of them.

The console sends requests only to the address in its settings. A page sends ids of schemas, never addresses, and the
client does not follow redirects. So a page cannot make the console send requests to other servers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from kcli.console.messages.decoding import SchemaCodec
from kcli.formats.codec import FormatError, missing_library
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.errors import RegistryError, RegistrySilent
from kcli.formats.registry.framing import SchemaKey
from kcli.formats.registry.payloads import value_decode
from kcli.formats.registry.schemas import Schemas
from kcli.formats.registry.settings import URL, RegistrySettings

ANSWER_MAX_BYTES = 4 << 20
"""The largest answer of a registry. A large schema has some hundred kilobytes."""

REQUEST_SECONDS = 5.0
SCHEMA_SECONDS = 20.0
"""The longest wait for a schema with all its references."""

MAX_SCHEMAS = 1_000
"""The most decoders in memory."""

FAILED_SECONDS = 10.0
"""The time for which a failed look-up is remembered, so that a missing registry does not slow down every record."""

SILENT_SECONDS = 10.0
"""The time for which a registry that cannot be reached gets no requests. Each such request would keep a thread
waiting."""

MAX_FAILURES = 10_000


class SchemaRegistry:
    """The decoders of one registry. Threads call `find`, and each of them sends its requests itself."""

    def __init__(self, url: str, properties: Mapping[str, str] | None = None) -> None:
        """Reads the login and the TLS of the registry from the properties of the cluster. Raises ConfigError."""
        settings = RegistrySettings.of({**(properties or {}), URL: url})
        # A page waits for the answer, so there is no second attempt.
        settings = replace(settings, retries_max=0, request_seconds=REQUEST_SECONDS)
        self._schemas = Schemas(RegistryClient(settings, answer_max_bytes=ANSWER_MAX_BYTES))
        self._known: OrderedDict[SchemaKey, SchemaCodec] = OrderedDict()
        self._failed: dict[SchemaKey, tuple[float, str]] = {}
        self._silence: tuple[float, str] | None = None

    @property
    def client(self) -> RegistryClient:
        """The client, for the pages about schemas."""
        return self._schemas.client

    async def close(self) -> None:
        """Forgets the schemas."""
        self._known.clear()
        self._failed.clear()
        self._silence = None

    def find(self, key: SchemaKey) -> SchemaCodec:
        """Returns the decoder of a schema. Called in a thread. Raises FormatError."""
        if (codec := self.known(key)) is not None:
            return codec
        self._try_again()
        try:
            codec = asyncio.run(self.codec(key))
        except FormatError as error:
            if len(self._failed) >= MAX_FAILURES:
                self._failed.clear()
            self._failed[key] = (time.monotonic() + FAILED_SECONDS, str(error))
            raise
        self._known[key] = codec
        while len(self._known) > MAX_SCHEMAS:
            self._known.popitem(last=False)
        return codec

    def known(self, key: SchemaKey) -> SchemaCodec | None:
        """Returns the decoder of a schema if it is in memory, or None if it must be requested from the registry. If a
        recent request failed, raises its FormatError again."""
        if (known := self._known.get(key)) is not None:
            return known
        for until, reason in (self._silence or (0.0, ""), self._failed.get(key, (0.0, ""))):
            if time.monotonic() < until:
                raise FormatError(reason)
        return None

    def _try_again(self) -> None:
        """If the registry did not answer, lets one thread try again after a pause. The other threads do not wait for
        the answer."""
        if self._silence is not None:
            self._note_silence(self._silence[1])

    def _note_silence(self, reason: str) -> None:
        self._silence = (time.monotonic() + SILENT_SECONDS, reason)

    async def codec(self, key: SchemaKey) -> SchemaCodec:
        """Requests a schema, and makes its decoder. Raises FormatError."""
        try:
            async with asyncio.timeout(SCHEMA_SECONDS):
                schema = await self._schemas.load(key)
        except TimeoutError:
            reason = f"the schema registry did not send schema {key} within {SCHEMA_SECONDS:.0f} s"
            self._note_silence(reason)
            raise FormatError(reason) from None
        except RegistrySilent as error:
            self._note_silence(str(error))
            raise FormatError(str(error)) from None
        except RegistryError as error:
            self._silence = None
            raise FormatError(str(error)) from None
        self._silence = None
        try:
            return SchemaCodec(key, schema.type.lower(), value_decode(schema, None))
        except ImportError as error:
            raise missing_library(error) from None
