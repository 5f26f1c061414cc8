"""DescribeUserScramCredentials (key 50, version 0): mechanisms and iterations of users, without keys (KIP-554).

The rules are in controller/scram.py.
"""

from __future__ import annotations

from kcli.controller.scram import describe_user_scram_credentials
from kcli.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import DESCRIBE_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CLUSTER)


def handle(
    context: NodeContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    return describe_user_scram_credentials(context.ports.metadata, request)
