"""Requests between workers: configurations of tasks and fencing, signed with the session key (KIP-507)."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from urllib.parse import quote

from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.decisions.session import SessionSettings, sign
from kcli.connect.errors import RestError
from kcli.connect.model import Config
from kcli.connect.peers.forwarding import NO_LEADER, Forwarder

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"

NO_URL = "NOTUSED"
"""The URL of a worker without a REST server, as the processes of MirrorMaker write it."""

NO_SERVER = (
    "The leader of the group cannot be asked, because it has no REST server. If this is MirrorMaker in dedicated mode, "
    "consider enabling inter-worker communication via the 'dedicated.mode.enable.internal.rest' property."
)


class InternalRequests:
    """`prefix` is the beginning of the paths of all workers, such as `/A/B`."""

    def __init__(self, forwarder: Forwarder, session: SessionSettings, prefix: str = "") -> None:
        self._forwarder = forwarder
        self._session = session
        self._prefix = prefix

    async def put_task_configs(
        self, leader_url: str | None, name: str, configs: Sequence[Config], key: SessionKey | None
    ) -> None:
        """Sends the configurations of tasks to the leader. Raises RestError."""
        body = json.dumps([dict(config) for config in configs], separators=(",", ":"), ensure_ascii=False)
        await self._send("POST", leader_url, name, "tasks", body.encode(), key)

    async def fence(self, leader_url: str | None, name: str, key: SessionKey | None) -> None:
        """Asks the leader to fence the last generation of tasks. Raises RestError."""
        await self._send("PUT", leader_url, name, "fence", b"", key)

    async def _send(
        self, method: str, leader_url: str | None, name: str, what: str, body: bytes, key: SessionKey | None
    ) -> None:
        if not leader_url:
            raise RestError(NO_LEADER, 409)
        if leader_url == NO_URL:
            raise RestError(NO_SERVER)
        headers = {}
        if key is not None:
            algorithm = self._session.signature_algorithm
            signature = base64.b64encode(sign(key, algorithm, body)).decode()
            headers = {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}
        url = f"{leader_url.rstrip('/')}{self._prefix}/connectors/{quote(name, safe='')}/{what}"
        reply = await self._forwarder.send(method, url, body, headers)
        if reply.status >= 400:
            text = reply.body.decode(errors="replace") if isinstance(reply.body, bytes) else ""
            raise RestError(_message(text), reply.status)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text
