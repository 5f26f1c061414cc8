"""ExpireDelegationToken (key 40, versions 1-2): refuses every request, as Kafka does on a PLAINTEXT listener
(KIP-48)."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import OPEN

ACCESS = OPEN


def handle(_context: NodeContext, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
