"""Calls of the REST API of Kafka Connect in a tool: the option --url, and errors as the errors of commands."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from kcli.cli.syntax.options import CommandError, CommonOptions, option
from kcli.client.diagnosis.connect.hints import short_message
from kcli.http.connect_rest import DEFAULT_URL, ConnectRest, InvalidUrl, NoWorker, Refused, connector_path

__all__ = ["ConnectOptions", "ConnectRestError", "Worker", "connector_path"]

URL_VARIABLE = "KCLI_CONNECT_URL"

_Answer = TypeVar("_Answer")

RETRY_SECONDS = 1.0
RETRIES_MAX = 30
"""The attempts while workers rebalance. Java's workers answer 409 meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions(CommonOptions):
    url: str | None = option(
        f"The URL of a worker, which may have user:password@ before the host. Default: ${URL_VARIABLE}, or "
        f"{DEFAULT_URL}.",
        metavar="URL",
    )


class ConnectRestError(CommandError):
    """A worker refused a request. `str()` is the worker's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of Kafka Connect."""

    rest: ConnectRest

    @classmethod
    def of(cls, options: ConnectOptions) -> Worker:
        """The worker of --url. Raises CommandError for an invalid URL."""
        try:
            return cls(ConnectRest.at(options.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL))
        except InvalidUrl as error:
            raise CommandError(f"--url {error}") from None

    def at(self, worker_id: str) -> Worker:
        """Another worker of the same group, by its worker id (`host:port`)."""
        return Worker(self.rest.of_worker(worker_id))

    def get(self, path: str, kind: type[_Answer]) -> _Answer:
        """The JSON of an answer, which must be an object (`dict`) or a list. Raises as `call` does."""
        answer = self.call("GET", path)
        if not isinstance(answer, kind):
            raise CommandError(
                f"{self.rest.url} has answered GET {path} in another form than a worker of Kafka Connect 2.3 or newer"
            )
        return answer

    def call(self, method: str, path: str, body: object = None) -> object:
        """Sends a request, and returns the JSON of the answer, or None if it has none.

        Waits while the workers rebalance. Raises ConnectRestError for another refusal, and CommandError if no worker
        answers.
        """
        return asyncio.run(self._call(method, path, body))

    def _advice(self, error: Refused) -> str:
        if error.status != HTTPStatus.UNAUTHORIZED:
            return ""
        return (
            ". Check the login in --url"
            if self.rest.login
            else ". Put user:password@ before the host of --url"
        )

    async def _call(self, method: str, path: str, body: object) -> object:
        for attempt in range(RETRIES_MAX):
            try:
                return await self.rest.call(method, path, body)
            except Refused as error:
                if not error.is_rebalance or attempt == RETRIES_MAX - 1:
                    raise ConnectRestError(
                        error.status, short_message(str(error)) + self._advice(error)
                    ) from None
            except NoWorker as error:
                raise CommandError(str(error)) from None
            await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError("the last attempt raises")
