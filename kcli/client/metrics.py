"""The metrics endpoint of a broker, asked over HTTP: beans by object name, and the slowest requests."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.object_name import ObjectName, unquoted

Value = str | int | float

# Some hundred bytes for each of a hundred thousand partitions' beans.
ANSWER_SIZE_MAX_BYTES = 256 * 1024 * 1024
# A large broker makes its answer in between its clients' requests.
ANSWER_MAX_SECONDS = 30.0


class MetricsUnavailable(KafkaError):
    """The endpoint is not there, or what is there is none; the message says which. Trying again may help."""

    retriable = True


@dataclass(frozen=True, slots=True)
class BeanValues:
    """A bean as the endpoint shows it: its object name, the parts of that (unquoted), and its attributes."""

    name: str
    properties: Mapping[str, str]
    attributes: dict[str, Value]

    @property
    def type(self) -> str:
        return self.properties.get("type", "")


async def fetch_beans(
    address: Address, queries: Sequence[str] = (), *, credentials: str | None = None
) -> list[BeanValues]:
    """The beans that match one of the object name patterns (none: all beans).

    `credentials`: user:password for a proxy before the endpoint. Raises MetricsUnavailable.
    """
    from urllib.parse import urlencode

    query = urlencode([("qry", each) for each in queries])
    found = await _get_json(address, f"/jmx?{query}" if query else "/jmx", credentials)
    beans = found.get("beans")
    if not isinstance(beans, list):
        raise MetricsUnavailable(f"{address} has no beans at /jmx: it is not the metrics endpoint of kcli")
    return [_bean(each) for each in beans]


def _bean(found: dict[str, Value]) -> BeanValues:
    name = str(found.pop("name"))
    properties = {key: unquoted(value) for key, value in ObjectName.parse(name).properties.items()}
    return BeanValues(name, properties, found)


async def fetch_slow_requests(address: Address) -> list[dict[str, Value]]:
    """The slowest requests of the last minutes, the slowest first. Raises MetricsUnavailable."""
    found = await _get_json(address, "/requests", None)
    requests = found.get("requests")
    if not isinstance(requests, list):
        raise MetricsUnavailable(f"{address} has no requests at /requests: it is not the endpoint of kcli")
    return requests


async def _get_json(address: Address, target: str, credentials: str | None) -> dict[str, Any]:
    try:
        async with asyncio.timeout(ANSWER_MAX_SECONDS):
            status, body = await _get(address, target, credentials)
    except TimeoutError:
        raise MetricsUnavailable(f"{address} did not answer in {ANSWER_MAX_SECONDS:g} s") from None
    except OSError as error:
        # asyncio puts an address where the system's words would be.
        refused = isinstance(error, ConnectionRefusedError)
        raise MetricsUnavailable("Connection refused" if refused else str(error)) from error
    if status != 200:
        raise MetricsUnavailable(
            f"{address} answered {status}: {body[:200].decode('utf-8', 'replace').strip()}"
        )
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise MetricsUnavailable(f"{address} does not answer in JSON: it is not the metrics endpoint of kcli")
    return found


async def _get(address: Address, target: str, credentials: str | None) -> tuple[int, bytes]:
    """(status, body). HTTP/1.0 is enough: one question, one answer, and the end of the connection is its end."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        lines = [f"GET {target} HTTP/1.0", f"Host: {address}", "Accept: application/json"]
        if credentials is not None:
            lines.append(f"Authorization: Basic {base64.b64encode(credentials.encode()).decode()}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = bytearray()
        while part := await reader.read(64 * 1024):
            answer += part
            if len(answer) > ANSWER_SIZE_MAX_BYTES:
                raise MetricsUnavailable(f"{address} sent more than {ANSWER_SIZE_MAX_BYTES} bytes")
    finally:
        writer.close()
    head, end, body = bytes(answer).partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if not end or not words[0].startswith(b"HTTP/") or len(words) < 2 or not words[1].isdigit():
        raise MetricsUnavailable(f"{address} does not speak HTTP: it is not a metrics endpoint")
    return int(words[1]), body
