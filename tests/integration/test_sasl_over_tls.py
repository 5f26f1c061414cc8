"""SASL_SSL: the login of SASL counts behind the handshake, and both are counted."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.server.network.login_counts import LoginCounts
from rigs.certificates import Certificates
from rigs.loops import until
from rigs.node import RunningNode, connect, with_node
from rigs.sasl import ALICE, SASL_LISTENER, log_in, numbers
from rigs.tls import context_of

LISTENERS = SASL_LISTENER | {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT",
    "listener.name.sasl.ssl.client.auth": "requested",
    "listener.name.ssl.ssl.client.auth": "required",
}


def test_the_principal_is_that_of_sasl_and_each_login_is_counted(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL", context_of(certificates, certificates.bob))
        assert (await log_in(client, ALICE)).error_code is ErrorCode.NONE
        listeners = node.sockets.listeners
        names = {str(each.session.principal) for each in listeners["SASL"].served}
        assert names == {"User:alice"}
        assert numbers(listeners["SASL"].logins) == numbers(LoginCounts(succeeded=1))
        await connect(node, "SSL", context_of(certificates, certificates.alice))
        await until(lambda: listeners["SSL"].logins.succeeded)
        expected = LoginCounts(succeeded=1, succeeded_without_again=1)
        assert numbers(listeners["SSL"].logins) == numbers(expected)
        with pytest.raises((ssl.SSLError, OSError, EOFError)):
            refused = await connect(node, "SSL", context_of(certificates))
            await refused.reader.readexactly(1)
        await until(lambda: listeners["SSL"].logins.failed)
        assert listeners["SSL"].logins.succeeded == 1

    with_node(tmp_path, story, **LISTENERS, **certificates.broker_config())
