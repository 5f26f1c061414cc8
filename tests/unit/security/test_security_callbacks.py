"""Classes of operators: a password check, a token check and a principal builder, as entry points."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.properties import Properties
from kcli.errors import SaslAuthenticationException
from kcli.security.callbacks import (
    PASSWORD_CHECKS,
    PRINCIPAL_BUILDERS,
    TOKEN_CHECKS,
    LoggedIn,
    principal_builder,
)
from kcli.security.mechanisms.oauthbearer import BearerClient, BearerToken, TokenRefused
from kcli.security.mechanisms.scram import ScramUsers
from kcli.security.mechanisms.server import Challenge, InThread, Success
from kcli.security.principal import Principal
from kcli.security.server_mechanisms import NodeParts, server_mechanisms

PACKAGE = "org.apache.kafka.common.security"


class Passwords:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.suffix = options["suffix"]

    def check(self, username: str, password: str) -> bool:
        if username == "broken":
            raise OSError("the directory does not answer")
        return password == username + self.suffix


class Tokens:
    def __init__(self, _options: Mapping[str, str]) -> None:
        pass

    def check(self, token: str, extensions: Mapping[str, str]) -> BearerToken:
        if token != "valid":
            raise TokenRefused("it is not valid")
        return BearerToken(extensions.get("as", "alice"), 5)


class Builder:
    def __init__(self, _options: Mapping[str, str]) -> None:
        pass

    def build(self, client: LoggedIn) -> Principal:
        return Principal("Group", f"{client.name} of {client.listener}")


class Nothing:
    def __init__(self, _options: Mapping[str, str]) -> None:
        pass


class Waits:
    def __init__(self, _options: Mapping[str, str]) -> None:
        pass

    async def check(self, _one: object, _two: object) -> bool:
        return False

    async def build(self, _client: LoggedIn) -> Principal:
        return Principal("User", "root")


class Answers:
    def __init__(self, _options: Mapping[str, str]) -> None:
        pass

    def check(self, _username: str, password: str) -> object:
        return {"none": None, "text": "refused", "one": 1, "true": True}[password]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("operators_checks")
    module.__dict__.update(Passwords=Passwords, Tokens=Tokens, Builder=Builder, Nothing=Nothing)
    module.__dict__.update(Waits=Waits, Answers=Answers)
    monkeypatch.setitem(sys.modules, "operators_checks", module)
    found = EntryPoints(
        EntryPoint(f"com.example.{name}", f"operators_checks:{name}", group)
        for group in (PASSWORD_CHECKS, TOKEN_CHECKS, PRINCIPAL_BUILDERS)
        for name in ("Passwords", "Tokens", "Builder", "Nothing", "Waits", "Answers")
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


def view(texts: dict[str, str]) -> ListenerConfig:
    properties = Properties()
    required = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "C"}
    properties.update_from(required | texts, where="test")
    return ListenerConfig(BrokerConfig(properties), "Clients")


def begin(mechanism: str, handler: str, module: str) -> Any:
    config = view(
        {
            "sasl.enabled.mechanisms": mechanism,
            f"{mechanism.lower()}.sasl.jaas.config": module,
            f"{mechanism.lower()}.sasl.server.callback.handler.class": handler,
        }
    )
    parts: Any = NodeParts(ScramUsers(lambda _name, _mechanism: None), lambda: 0, SimpleNamespace())
    return server_mechanisms(config, parts)[mechanism].begin()


PLAIN = f'{PACKAGE}.plain.PlainLoginModule required suffix="!";'
BEARER = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"


def test_a_class_checks_passwords_in_a_thread() -> None:
    step = begin("PLAIN", "com.example.Passwords", PLAIN).step(b"\0alice\0alice!")
    assert isinstance(step, InThread)
    assert step.work() == Success("alice")
    for token, text in ((b"\0alice\0x", "Invalid username"), (b"\0broken\0x", "could not be verified")):
        with pytest.raises(SaslAuthenticationException, match=text):
            begin("PLAIN", "com.example.Passwords", PLAIN).step(token).work()


def test_only_true_is_a_right_password() -> None:
    for password in ("none", "text", "one"):
        with pytest.raises(SaslAuthenticationException, match="Invalid username or password"):
            begin("PLAIN", "com.example.Answers", PLAIN).step(f"\0alice\0{password}".encode()).work()
    step = begin("PLAIN", "com.example.Answers", PLAIN).step(b"\0alice\0true")
    assert step.work() == Success("alice")


def test_a_builder_must_not_wait() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Waits has build as a coroutine function"):
        principal_builder(view({"principal.builder.class": "com.example.Waits"}))


def test_a_class_checks_tokens_and_extensions() -> None:
    exchange = begin("OAUTHBEARER", "com.example.Tokens", BEARER)
    message = BearerClient("valid", {"as": "bob"}).respond(b"")
    assert exchange.step(message).work() == Success("bob", expires_at_ms=5)
    refused = begin("OAUTHBEARER", "com.example.Tokens", BEARER).step(BearerClient("x").respond(b"")).work()
    assert refused == Challenge(b'{"status":"invalid_token"}')


def test_a_client_has_few_tokens_in_one_login() -> None:
    exchange = begin("OAUTHBEARER", "com.example.Tokens", BEARER)
    for _ in range(3):
        exchange.step(BearerClient("x").respond(b"")).work()
    with pytest.raises(TokenRefused):
        exchange.step(BearerClient("valid").respond(b""))


def test_a_class_names_principals() -> None:
    builder = principal_builder(view({"principal.builder.class": "com.example.Builder"}))
    assert builder is not None
    built = builder.build(LoggedIn("Clients", "h", "PLAIN", "alice"))
    assert str(built) == "Group:alice of Clients"
    assert principal_builder(view({})) is None


@pytest.mark.parametrize(
    ("mechanism", "handler", "module", "message"),
    [
        ("PLAIN", "com.example.Absent", PLAIN, "no installed package has the entry point com.example.Absent"),
        ("PLAIN", "com.example.Nothing", PLAIN, "com.example.Nothing has no check"),
        ("PLAIN", "com.example.Waits", PLAIN, "com.example.Waits has check as a coroutine function"),
        ("OAUTHBEARER", "com.example.Waits", BEARER, "com.example.Waits has check as a coroutine function"),
        (
            "PLAIN",
            "com.example.Passwords",
            f"{PACKAGE}.plain.PlainLoginModule required;",
            "does not accept the configuration: KeyError",
        ),
        (
            "SCRAM-SHA-256",
            "com.example.Passwords",
            f"{PACKAGE}.scram.ScramLoginModule required;",
            "is not supported",
        ),
    ],
)
def test_a_class_that_cannot_be_used_stops_the_start(
    mechanism: str, handler: str, module: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        begin(mechanism, handler, module)
    assert raised.value.where == "test"
