"""RenewDelegationToken (key 39, versions 1-2): refuses every request, as Kafka does on a PLAINTEXT listener
(KIP-48)."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import OPEN

ACCESS = OPEN


def handle(_context: NodeContext, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
