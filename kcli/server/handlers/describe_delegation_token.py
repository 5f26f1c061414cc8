"""DescribeDelegationToken (key 41, versions 1-3): refuses every request, as Kafka does on a PLAINTEXT listener
(KIP-48)."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS, per_resource

ACCESS = per_resource(DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS)


def handle(
    _context: NodeContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
