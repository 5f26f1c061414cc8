"""RenewDelegationToken (key 39, versions 1-2): not on PLAINTEXT listeners (KIP-48), and there are no others."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcli.server.requests.access import OPEN
from kcli.server.requests.context import RequestContext

ACCESS = OPEN


def handle(_context: RequestContext, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
