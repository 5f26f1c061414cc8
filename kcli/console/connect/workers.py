"""The workers of Kafka Connect that the options of the console name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

from kcli.console.calls import Call
from kcli.console.failures import ConsoleError
from kcli.http.connect_rest import ConnectRest, NoWorker, Refused

READ_MAX_SECONDS = 20.0
"""The longest time of a read. A page cannot wait for the 90 s of a worker."""
RETRIES_MAX = 20
RETRY_SECONDS = 1.0
"""The attempts of a change while the workers rebalance, and the pause between two of them."""
Json = Mapping[str, object]

_STATUSES = {
    status.value: status for status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
}


def worker_of(call: Call) -> ConnectRest:
    """The worker of the URL's part {worker}. Raises HttpError if the options name no such worker."""
    place = call.part("worker")
    for rest in call.rules.settings.connect:
        if rest.place == place:
            return rest
    raise ConsoleError(HTTPStatus.NOT_FOUND, "UNKNOWN_WORKER", "the console has no worker with this URL")


async def read(rest: ConnectRest, path: str) -> object:
    """The JSON of a GET. Raises HttpError."""
    try:
        return await rest.call("GET", path, max_seconds=READ_MAX_SECONDS)
    except (Refused, NoWorker) as error:
        raise failure(error) from error


async def send(rest: ConnectRest, method: str, path: str, body: object = None) -> object:
    """Sends a change, again while the workers rebalance. Returns the JSON of the answer. Raises HttpError."""
    for attempt in range(RETRIES_MAX):
        try:
            return await rest.call(method, path, body)
        except Refused as error:
            if not error.is_rebalance or attempt == RETRIES_MAX - 1:
                raise failure(error) from error
        except NoWorker as error:
            raise failure(error) from error
        await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("the last attempt raises")


def failure(error: Refused | NoWorker) -> ConsoleError:
    """The error of a worker for a page."""
    if isinstance(error, NoWorker):
        return ConsoleError(HTTPStatus.BAD_GATEWAY, "NO_WORKER", str(error))
    return ConsoleError(_STATUSES.get(error.status, HTTPStatus.BAD_GATEWAY), "WORKER_REFUSED", str(error))
