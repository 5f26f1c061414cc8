"""`kcli delegation-tokens` against a server by script: requests, text and errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.errors import ErrorCode
from kcli.protocol.messages import create_delegation_token as ct
from kcli.protocol.messages import describe_delegation_token as dt
from kcli.protocol.messages import expire_delegation_token as et
from kcli.protocol.messages import metadata
from kcli.protocol.messages import renew_delegation_token as rt
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Done
from rigs.scripted_server import ScriptedServer

HMAC = bytes(range(64))
TEXT = base64.b64encode(HMAC).decode()
ISSUE, EXPIRY, MAX = 1_795_324_380_000, 1_795_410_780_000, 1_795_929_180_000
TOKEN_ID = "abcdefghijklmnopqrstuv"
HEADER = (
    "\nTOKENID         HMAC                           OWNER           REQUESTER       RENEWERS                  "
    "ISSUEDATE       EXPIRYDATE      MAXDATE        \n"
)
ROW = (
    f"\n{TOKEN_ID} {TEXT} User:alice      User:admin      [User:bob, User:eve]      "
    "2026-11-22T05:13 2026-11-23T05:13 2026-11-29T05:13\n"
)


class TokenServer:
    """A broker with one token. `error` is the code of its answers."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.server = ScriptedServer(
            {
                ApiKey.METADATA: self.metadata,
                ApiKey.CREATE_DELEGATION_TOKEN: lambda _request, _version: ct.CreateDelegationTokenResponse(
                    error_code=self.error,
                    principal_type="User",
                    principal_name="alice",
                    token_requester_principal_type="User",
                    token_requester_principal_name="admin",
                    issue_timestamp_ms=ISSUE,
                    expiry_timestamp_ms=EXPIRY,
                    max_timestamp_ms=MAX,
                    token_id=TOKEN_ID,
                    hmac=HMAC,
                ),
                ApiKey.RENEW_DELEGATION_TOKEN: lambda _request, _version: rt.RenewDelegationTokenResponse(
                    error_code=self.error, expiry_timestamp_ms=EXPIRY
                ),
                ApiKey.EXPIRE_DELEGATION_TOKEN: lambda _request, _version: et.ExpireDelegationTokenResponse(
                    error_code=self.error, expiry_timestamp_ms=EXPIRY
                ),
                ApiKey.DESCRIBE_DELEGATION_TOKEN: self.describe,
            }
        )

    def metadata(self, _request: Any, _version: int) -> metadata.MetadataResponse:
        broker = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port)
        return metadata.MetadataResponse(brokers=(broker,), controller_id=1)

    def describe(
        self, request: dt.DescribeDelegationTokenRequest, _version: int
    ) -> dt.DescribeDelegationTokenResponse:
        token = dt.DescribedDelegationToken(
            principal_type="User",
            principal_name="alice",
            token_requester_principal_type="User",
            token_requester_principal_name="admin",
            issue_timestamp=ISSUE,
            expiry_timestamp=EXPIRY,
            max_timestamp=MAX,
            token_id=TOKEN_ID,
            hmac=HMAC,
            renewers=tuple(
                dt.DescribedDelegationTokenRenewer(principal_type="User", principal_name=name)
                for name in ("bob", "eve")
            ),
        )
        return dt.DescribeDelegationTokenResponse(
            error_code=self.error, tokens=() if request.owners == () else (token,)
        )


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    scripted = TokenServer()
    with scripted.server:
        yield scripted
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def call(tokens: TokenServer, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> Callable[..., Done]:
    config = tmp_path / "client.properties"
    config.write_text("")

    def call(*words: str) -> Done:
        server = f"127.0.0.1:{tokens.server.port}"
        code = run(
            ["delegation-tokens", "--bootstrap-server", server, "--command-config", str(config), *words]
        )
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return call


def test_create_prints_the_new_token(call: Callable[..., Done], tokens: TokenServer) -> None:
    done = call(
        "--create", "--max-life-time-period", "-1",
        "--renewer-principal", "User:bob", "--renewer-principal", "User:eve", "--owner-principal", "User:alice",
    )  # fmt: skip
    assert done == Done(
        0,
        "Calling create token operation with renewers :[User:bob, User:eve] , max-life-time-period :-1\n"
        f"Created delegation token with tokenId : {TOKEN_ID}\n" + HEADER + ROW,
        "",
    )
    (request,) = tokens.server.sent(ApiKey.CREATE_DELEGATION_TOKEN)
    assert (request.owner_principal_name, request.max_lifetime_ms) == ("alice", -1)
    assert [renewer.principal_name for renewer in request.renewers] == ["bob", "eve"]


@pytest.mark.parametrize("operation", ["renew", "expire"])
def test_renew_and_expire_print_the_new_expiry_without_a_newline(
    call: Callable[..., Done], tokens: TokenServer, operation: str
) -> None:
    period = {"renew": "--renew-time-period", "expire": "--expiry-time-period"}[operation]
    done = call(f"--{operation}", "--hmac", TEXT, period, "60000")
    assert done.out == (
        f"Calling {operation} token operation with hmac :{TEXT} , {operation}-time-period :60000\n"
        f"Completed {operation} operation. New expiry date : 2026-11-23T05:13"
    )
    (request,) = tokens.server.sent(ApiKey[f"{operation.upper()}_DELEGATION_TOKEN"])
    assert request.hmac == HMAC


def test_describe_without_an_owner_selects_nothing_as_in_kafka(call: Callable[..., Done]) -> None:
    assert call("--describe").out == (
        "Calling describe token operation for current user.\nTotal number of tokens : 0" + HEADER
    )
    assert call("--describe", "--owner-principal", "User:alice").out == (
        "Calling describe token operation for owners: [User:alice]\nTotal number of tokens : 1" + HEADER + ROW
    )


def test_all_describes_every_token_that_the_user_may_see(
    call: Callable[..., Done], tokens: TokenServer
) -> None:
    row = json.loads(call("--describe", "--all", "--output", "json").out)
    assert row["token_id"] == TOKEN_ID and row["renewers"] == ["User:bob", "User:eve"]
    (request,) = tokens.server.sent(ApiKey.DESCRIBE_DELEGATION_TOKEN)
    assert request.owners is None


def test_a_refusal_is_printed_as_javas_exception(call: Callable[..., Done], tokens: TokenServer) -> None:
    tokens.error = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    done = call("--renew", "--hmac", "AAAA", "--renew-time-period", "-1")
    said = "Specified Principal is not valid Owner/Renewer."
    assert done.code == 1
    assert done.err == f"org.apache.kafka.common.errors.DelegationTokenOwnerMismatchException: {said}\n"


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--create",), 'Missing required argument "[max-life-time-period]"'),
        (("--renew", "--hmac", "AAAA"), 'Missing required argument "[renew-time-period]"'),
        (("--expire", "--expiry-time-period", "1"), 'Missing required argument "[hmac]"'),
        (
            ("--describe", "--create"),
            "Command must include exactly one action: --create, --renew, --expire or --describe",
        ),
        (("--describe", "--hmac", "AAAA"), 'Option "[describe]" can\'t be used with option "[hmac]"'),
        (("--renew", "--hmac", "!!", "--renew-time-period", "1"), "Illegal base64 character 21"),
        (
            ("--renew", "--hmac", "A", "--renew-time-period", "1"),
            "Last unit does not have enough valid bits",
        ),
        (
            ("--create", "--max-life-time-period", "1", "--renewer-principal", "bob"),
            "expected a string in format principalType:principalName but got bob",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_the_words_of_kafka(
    call: Callable[..., Done], words: tuple[str, ...], message: str
) -> None:
    done = call(*words)
    assert done.code == 1
    assert done.err.splitlines()[0] == message


@pytest.mark.usefixtures("kafkas_script")
def test_the_tool_needs_a_command_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delegation-tokens", "--bootstrap-server", "h:1", "--create"]) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[command-config]"\n')
