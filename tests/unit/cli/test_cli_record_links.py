"""The login of a tool that produces or consumes, before librdkafka connects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kcli.cli.client_properties import checked_login
from kcli.cli.main import run
from kcli.cli.syntax.options import CommandError
from kcli.errors import ErrorCode, SaslAuthenticationException
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedServer

REFUSED = "Authentication failed: Invalid username or password"
SCRIPT: dict[ApiKey, Callable[[Any, int], Any]] = {
    ApiKey.SASL_HANDSHAKE: lambda request, version: SaslHandshakeResponse(),
    ApiKey.SASL_AUTHENTICATE: lambda request, version: (
        SaslAuthenticateResponse()
        if request.auth_bytes.endswith(b"right")
        else SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=REFUSED)
    ),
}


def login(server: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": server,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'PlainLoginModule required username="alice" password="{password}";',
    }


def test_a_login_that_works_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(SCRIPT) as server:
        checked_login(login(server.address, "right"))
        assert len(server.sent(ApiKey.SASL_AUTHENTICATE)) == 1
    assert capfd.readouterr().err == ""


def test_a_refused_login_names_the_mistake() -> None:
    with ScriptedServer(SCRIPT) as server, pytest.raises(SaslAuthenticationException, match=REFUSED):
        checked_login(login(server.address, "wrong"))


def test_a_tool_with_an_event_loop_can_check_its_login() -> None:
    async def tool(server: str) -> None:
        checked_login(login(server, "right"))

    with ScriptedServer(SCRIPT) as server:
        asyncio.run(tool(server.address))


def test_no_login_needs_no_server() -> None:
    checked_login({"bootstrap.servers": "127.0.0.1:1"})
    checked_login(login("127.0.0.1:1", "right"))  # librdkafka logs that the server is not there


def test_settings_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(CommandError, match="has no username"):
        checked_login(login("127.0.0.1:1", "right") | {"sasl.jaas.config": "PlainLoginModule required;"})


@pytest.mark.parametrize(
    ("argv", "code", "out", "err"),
    [
        (["console-consumer", "--topic", "t"], 0, "", "Processed a total of 0 messages"),
        (
            [
                "producer-perf-test",
                "--topic",
                "t",
                "--num-records",
                "1",
                "--record-size",
                "10",
                "--throughput",
                "-1",
            ],
            0,
            "0 records sent, 0.0 records/sec (0.00 MB/sec), NaN ms avg latency",
            REFUSED,
        ),
        (["verifiable-producer", "--topic", "t", "--max-messages", "1"], 1, "", REFUSED),
    ],
)
def test_a_tool_whose_login_is_refused_ends_at_once(
    argv: list[str], code: int, out: str, err: str, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(SCRIPT) as server:
        properties = login(server.address, "wrong")
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        argv = [*argv, "--bootstrap-server", server.address, "--command-config", str(path)]
        assert run(argv) == code
    shown = capfd.readouterr()
    assert out in shown.out
    assert err in shown.err
    assert "wrong" not in shown.out + shown.err
