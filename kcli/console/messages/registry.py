"""Gets schemas from a schema registry, and makes decoders of them.

The console sends requests only to the address in its settings. A page sends ids of schemas, never addresses, and the
console does not follow redirects. So a page cannot make the console send requests to other servers.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import ssl
import time
import urllib.parse
from collections import OrderedDict
from dataclasses import dataclass

from kcli.console.messages.decoding import SchemaCodec
from kcli.errors import KcliError
from kcli.formats.avro.codec import avro_codec, avro_schema
from kcli.formats.codec import FormatError, Value
from kcli.http.client import NotHttp, ResponseTooLong, get
from kcli.model.addresses import Address, read_server
from kcli.model.java_json import json_int

ANSWER_MAX_BYTES = 4 << 20
"""The largest answer of a registry. A large schema has some hundred kilobytes."""

REQUEST_SECONDS = 5.0
MAX_SCHEMAS = 1_000
"""The most decoders in memory."""

FAILED_SECONDS = 10.0
"""The time for which a failed look-up is remembered, so that a missing registry does not slow down every record."""

SILENT_SECONDS = 10.0
"""The time for which a registry that cannot be reached gets no requests. Each such request would keep a thread
waiting."""

MAX_FAILURES = 10_000
MAX_IMPORTS = 50
"""The most schemas that a Protobuf schema may import, directly and indirectly."""

DEFAULT_PORTS = {"http": 80, "https": 443}


class InvalidRegistry(KcliError):
    """Raised for an invalid address of a registry."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address of a registry: the server, the path before each request, and the login."""

    address: Address
    path: str
    is_https: bool
    credentials: str | None = None

    def __repr__(self) -> str:
        return f"RegistryAddress({self.address}{self.path})"


def registry_address(url: str) -> RegistryAddress:
    """Parses http(s)://[user:password@]host[:port][/path]. Raises InvalidRegistry."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise InvalidRegistry(f"the address of the schema registry is invalid: {error}") from None
    host = parts.hostname or ""
    address = read_server(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if parts.scheme not in DEFAULT_PORTS or address is None or parts.query or parts.fragment:
        raise InvalidRegistry(
            "the address of the schema registry: expected http://host:port or https://host:port"
        )
    credentials = None
    if parts.username is not None:
        credentials = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return RegistryAddress(address, parts.path.rstrip("/"), parts.scheme == "https", credentials)


class SchemaRegistry:
    """The schemas of one registry, by id. `find` is called in threads, and the requests run on the event loop."""

    def __init__(self, where: RegistryAddress, *, tls: ssl.SSLContext | None = None) -> None:
        self._where = where
        self._tls = (tls or ssl.create_default_context()) if where.is_https else None
        self._known: OrderedDict[int, SchemaCodec] = OrderedDict()
        self._failed: dict[int, tuple[float, str]] = {}
        self._silence: tuple[float, str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Remembers the running event loop for the requests of other threads."""
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Forgets the schemas."""
        self._known.clear()
        self._failed.clear()
        self._silence = None

    def find(self, schema_id: int) -> SchemaCodec:
        """Returns the decoder of a schema. Called in a thread. Raises FormatError."""
        if (codec := self.known(schema_id)) is not None:
            return codec
        self._try_again()
        try:
            fetched = self._fetch(schema_id)
        except FormatError as error:
            if len(self._failed) >= MAX_FAILURES:
                self._failed.clear()
            self._failed[schema_id] = (time.monotonic() + FAILED_SECONDS, str(error))
            raise
        self._known[schema_id] = fetched
        while len(self._known) > MAX_SCHEMAS:
            self._known.popitem(last=False)
        return fetched

    def known(self, schema_id: int) -> SchemaCodec | None:
        """Returns the decoder of a schema if it is in memory, or None if it must be requested from the registry. If a
        recent request failed, raises its FormatError again."""
        if (known := self._known.get(schema_id)) is not None:
            return known
        for until, reason in (self._silence or (0.0, ""), self._failed.get(schema_id, (0.0, ""))):
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

    def _fetch(self, schema_id: int) -> SchemaCodec:
        assert self._loop is not None, "start() comes first"
        future = asyncio.run_coroutine_threadsafe(self.codec(schema_id), self._loop)
        try:
            return future.result(REQUEST_SECONDS * 4)
        except TimeoutError:
            future.cancel()
            reason = f"the schema registry did not answer for schema {schema_id}"
            self._note_silence(reason)
            raise FormatError(reason) from None

    async def codec(self, schema_id: int) -> SchemaCodec:
        """Requests a schema, and makes its decoder. Raises FormatError."""
        try:
            return await self._codec(schema_id)
        except ImportError as error:
            raise FormatError(f"{error.name} is missing: pip install kcli-streaming[schemas]") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(f"schema {schema_id} is invalid: {type(error).__name__}: {error}") from None

    async def _codec(self, schema_id: int) -> SchemaCodec:
        described = await self._json(f"/schemas/ids/{schema_id}")
        kind = str(described.get("schemaType", "AVRO"))
        match kind:
            case "AVRO":
                if described.get("references"):
                    raise FormatError(
                        f"schema {schema_id} refers to other schemas, which is not supported for Avro"
                    )
                schema = avro_schema(str(described.get("schema", "")))
                return SchemaCodec(schema_id, "avro", avro_codec(schema).decode)
            case "JSON":
                return SchemaCodec(schema_id, "json", _json_value)
            case "PROTOBUF":
                return await self._protobuf(schema_id, described)
            case _:
                raise FormatError(f"schema {schema_id} has the unknown type {kind}")

    async def _protobuf(self, schema_id: int, described: dict[str, object]) -> SchemaCodec:
        from kcli.console.messages.protobuf_schemas import protobuf_decoder

        imports: dict[str, bytes] = {}
        await self._imports(described.get("references"), imports)
        serialized = await self._json(f"/schemas/ids/{schema_id}?format=serialized")
        return SchemaCodec(schema_id, "protobuf", protobuf_decoder(_descriptor(serialized), imports))

    async def _imports(self, references: object, imports: dict[str, bytes]) -> None:
        """Adds the descriptors of imported files to `imports`, by the names of the files."""
        for reference in references if isinstance(references, list) else ():
            name, subject, version = reference["name"], reference["subject"], reference["version"]
            if name in imports:
                continue
            if len(imports) >= MAX_IMPORTS:
                raise FormatError(f"the schema imports more than {MAX_IMPORTS} schemas")
            place = f"/subjects/{urllib.parse.quote(str(subject), safe='')}/versions/{json_int(version)}"
            described = await self._json(place)
            imports[str(name)] = _descriptor(await self._json(f"{place}?format=serialized"))
            await self._imports(described.get("references"), imports)

    async def _json(self, target: str) -> dict[str, object]:
        """Sends one request. Raises FormatError if the registry does not answer with an object."""
        where = self._where
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await get(
                    where.address,
                    where.path + target,
                    body_max_bytes=ANSWER_MAX_BYTES,
                    credentials=where.credentials,
                    tls=self._tls,
                )
        except (OSError, NotHttp, ResponseTooLong) as error:
            cause = str(error) or "no answer in time"
            reason = f"the schema registry {where.address} cannot be read: {cause}"
            if isinstance(error, OSError):
                self._note_silence(reason)
            raise FormatError(reason) from None
        self._silence = None
        if answer.status == 404:
            raise FormatError(f"the schema registry does not know {target.partition('?')[0]}")
        if answer.status != 200:
            raise FormatError(f"the schema registry answered {target} with status {answer.status}")
        return _object(answer.body)


def _object(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError("the schema registry did not answer with a JSON object")
    return document


def _descriptor(answer: dict[str, object]) -> bytes:
    try:
        return base64.b64decode(str(answer.get("schema", "")), validate=True)
    except (binascii.Error, ValueError):
        raise FormatError("the schema registry does not offer Protobuf schemas in serialized form") from None


def _json_value(raw: bytes) -> Value:
    value: Value = json.loads(raw)
    return value
