"""ExpireDelegationToken (key 40, versions 1-2): not on PLAINTEXT listeners (KIP-48), and there are no others."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kcli.server.requests.access import OPEN
from kcli.server.requests.context import RequestContext

ACCESS = OPEN


def handle(_context: RequestContext, _request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
