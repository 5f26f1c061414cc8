"""The resources for the other workers of a group: configurations of tasks, and fencing (KIP-507, KIP-618)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from http import HTTPStatus

from kcli.connect.errors import BadRequest
from kcli.connect.herders.herder import Herder
from kcli.connect.model import InternalSignature
from kcli.connect.peers.internal_requests import ALGORITHM_HEADER, SIGNATURE_HEADER
from kcli.http.rest.json_bodies import InvalidBody, texts_of
from kcli.http.rest.json_slices import read_json
from kcli.http.rest.routing import Call, Reply, Route
from kcli.runtime.turns import Turn

READ_COST = 5
"""The cost of the configuration of a task in a body."""

_NO_CONTENT = Reply(status=HTTPStatus.NO_CONTENT)


class InternalResources:
    """`prefix` is the beginning of the paths, such as `/A/B`, because a process of MirrorMaker has several herders."""

    def __init__(self, herder: Herder, prefix: str = "") -> None:
        self._herder = herder
        self._prefix = prefix

    def routes(self) -> Sequence[Route]:
        one = f"{self._prefix}/connectors/{{connector}}"
        return [
            Route("POST", f"{one}/tasks", self._put_task_configs),
            Route("PUT", f"{one}/fence", self._fence),
        ]

    async def _put_task_configs(self, call: Call) -> Reply:
        body = await read_json(call.body, numbers_as_text=True)
        if not isinstance(body, list):
            raise InvalidBody("the body is not a list of configurations")
        pace, configs = Turn(), []
        for item in body:
            await pace(READ_COST)
            texts = texts_of(item, "a configuration")
            configs.append({key: value or "" for key, value in texts.items()})
        await self._herder.put_task_configs(call.parameters["connector"], configs, _signature(call))
        return _NO_CONTENT

    async def _fence(self, call: Call) -> Reply:
        await self._herder.fence_zombies(call.parameters["connector"], _signature(call))
        return _NO_CONTENT


def _signature(call: Call) -> InternalSignature | None:
    """The signature of a request of another worker, or None if the request has none."""
    signature, algorithm = call.headers.get(SIGNATURE_HEADER), call.headers.get(ALGORITHM_HEADER)
    if signature is None or algorithm is None:
        return None
    try:
        return InternalSignature(algorithm, base64.b64decode(signature, validate=True), call.body)
    except (binascii.Error, ValueError):
        raise BadRequest("the signature of the request is not base64") from None
