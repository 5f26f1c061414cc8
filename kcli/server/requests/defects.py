"""The lines about unexpected errors in the code of an API. They are limited, because a client may repeat its
request."""

from __future__ import annotations

import asyncio
import logging

from kcli.errors import KafkaError, KafkaStorageException, StorageError, UnknownServerException
from kcli.protocol.wire.api import ApiSpec
from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.requests.route import Context

_log = logging.getLogger("kcli.server.KafkaApis")


class Defects:
    """Logs the unexpected errors of one listener. The lines of each API are limited separately, so that a hostile
    client does not hide the errors of other APIs.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, LimitedLines] = {}

    def log(self, text: str, spec: ApiSpec, error: BaseException) -> None:
        """Logs an error, if the last line about this API is old enough."""
        lines = self._lines.get(spec.name)
        if lines is None:
            lines = self._lines[spec.name] = LimitedLines()
        ending = lines.ending(asyncio.get_running_loop().time())
        if ending is not None:
            _log.error("%s%s", text, ending, exc_info=error)

    def as_kafka_error(self, spec: ApiSpec, context: Context, error: BaseException) -> KafkaError:
        """Returns the error for the client. Logs each error that is not a KafkaError."""
        if isinstance(error, KafkaError):
            return error
        self.log(
            f"Unexpected error handling {spec.name} version {context.api_version} from {context.peer_host} "
            f"(client id {log_text.name(context.client_id)})",
            spec,
            error,
        )
        return KafkaStorageException() if isinstance(error, StorageError) else UnknownServerException()
