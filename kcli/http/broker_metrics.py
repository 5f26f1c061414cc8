"""Reads the metrics endpoint of a broker: beans by object name, and the slowest requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.java_text import trim
from kcli.model.object_name import ObjectName, unquoted

if TYPE_CHECKING:
    import ssl

    from kcli.http.client import Response

Value = str | int | float

# The largest accepted answer. 100,000 partitions have five beans each, and a bean takes some hundred bytes.
ANSWER_SIZE_MAX_BYTES = 256 * 1024 * 1024
# A large broker answers slowly, because it also serves the requests of Kafka's clients.
ANSWER_MAX_SECONDS = 30.0


class MetricsUnavailable(KafkaError):
    """Raised if no server answers, or if the server is not a kcli metrics endpoint. A later attempt may succeed."""

    retriable = True


class NotHttpError(MetricsUnavailable):
    """Raised if the port does not speak HTTP, such as a port of JMX. Another attempt cannot succeed."""

    retriable = False


@dataclass(frozen=True, slots=True)
class BeanValues:
    """A bean: its object name, the properties in that name (unquoted), and its attributes."""

    name: str
    properties: Mapping[str, str]
    attributes: dict[str, Value]

    @property
    def type(self) -> str:
        return self.properties.get("type", "")


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """The access of a tool to an endpoint: `user:password` (None: no login), and the TLS context for HTTPS (None:
    HTTP).
    """

    credentials: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None


ANYBODY = MetricsAccess()


async def fetch_beans(
    address: Address, queries: Sequence[str] = (), access: MetricsAccess = ANYBODY
) -> list[BeanValues]:
    """Returns the beans that match one of the object name patterns. Without a pattern, returns all beans.

    Raises MetricsUnavailable if there is no answer.
    """
    from urllib.parse import urlencode

    query = urlencode([("qry", pattern) for pattern in queries])
    answer = await _get_json(address, f"/jmx?{query}" if query else "/jmx", access)
    beans = answer.get("beans")
    if not isinstance(beans, list):
        raise MetricsUnavailable(f"{address} has no beans at /jmx: it is not the metrics endpoint of kcli")
    # 100,000 partitions take a second, in which the console must serve other requests.
    return await asyncio.to_thread(lambda: [_bean(bean) for bean in beans])


def _bean(values: dict[str, Value]) -> BeanValues:
    name = str(values.pop("name"))
    properties = {key: unquoted(value) for key, value in ObjectName.parse(name).properties.items()}
    return BeanValues(name, properties, values)


async def fetch_slow_requests(address: Address, access: MetricsAccess = ANYBODY) -> list[dict[str, Value]]:
    """Returns the slowest requests of the last minutes, the slowest first.

    Raises MetricsUnavailable if there is no answer.
    """
    answer = await _get_json(address, "/requests", access)
    requests = answer.get("requests")
    if not isinstance(requests, list):
        raise MetricsUnavailable(f"{address} has no requests at /requests: it is not the endpoint of kcli")
    return requests


async def _get_json(address: Address, target: str, access: MetricsAccess) -> dict[str, Any]:
    response = await _get(address, target, access)
    if response.status != HTTPStatus.OK:
        raise MetricsUnavailable(
            f"{address} answered {response.status}: {trim(response.body[:200].decode('utf-8', 'replace'))}"
        )
    try:
        answer = json.loads(response.body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise MetricsUnavailable(f"{address} does not answer in JSON: it is not the metrics endpoint of kcli")
    return answer


async def _get(address: Address, target: str, access: MetricsAccess) -> Response:
    """Requests `target` by GET. The HTTP library is imported here, because most commands do not need it."""
    from kcli.http import client

    try:
        async with asyncio.timeout(ANSWER_MAX_SECONDS):
            return await client.get(
                address,
                target,
                body_max_bytes=ANSWER_SIZE_MAX_BYTES,
                credentials=access.credentials,
                tls=access.tls,
            )
    except TimeoutError:
        raise MetricsUnavailable(f"{address} did not answer in {ANSWER_MAX_SECONDS:g} s") from None
    except OSError as error:
        # asyncio's own message has the address, but not the message of the operating system.
        refused = isinstance(error, ConnectionRefusedError)
        raise MetricsUnavailable("Connection refused" if refused else str(error)) from error
    except client.ResponseTooLong:
        raise MetricsUnavailable(f"{address} sent more than {ANSWER_SIZE_MAX_BYTES} bytes") from None
    except client.NotHttp as error:
        raise NotHttpError(f"{address} does not speak HTTP: it is not a metrics endpoint of kcli") from error
