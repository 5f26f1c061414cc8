"""The lists of URLs and files that OAUTHBEARER may use (CVE-2025-27817)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcli.client.config import SecuritySettingsError, client_config
from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.environment import KAFKA_OPTS
from kcli.config.properties import Properties
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.security import translate_security
from kcli.security.allowed_sources import (
    ALLOWED_FILES,
    ALLOWED_URLS,
    AllowedSources,
    SourceNotAllowed,
    sources_of_environment,
)
from kcli.security.client import client_security
from kcli.server.logins.link_security import LinkSecurity

URL = "https://login.example/token"
KEY = "sasl.oauthbearer.token.endpoint.url"
ASSERTION = "sasl.oauthbearer.assertion"
BEARER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "OAuthBearerLoginModule required;",
    "sasl.oauthbearer.client.credentials.client.id": "id",
    "sasl.oauthbearer.client.credentials.client.secret": "secret",
    KEY: URL,
}
SIGNED = {
    **BEARER,
    "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
}
REFUSED = re.escape(
    f"Invalid value {URL} for configuration {KEY}: The URL cannot be accessed due to restrictions. Update the system "
    f"property '{ALLOWED_URLS}' to allow the URL to be accessed."
)


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KAFKA_OPTS, "KCLI_SASL_OAUTHBEARER_ALLOWED_URLS", "KCLI_SASL_OAUTHBEARER_ALLOWED_FILES"):
        monkeypatch.delenv(name, raising=False)


def test_no_url_is_allowed_by_default() -> None:
    with pytest.raises(ValueError, match=REFUSED):
        client_security(BEARER)


def test_tools_spark_and_librdkafka_refuse_the_url_too() -> None:
    with pytest.raises(SecuritySettingsError, match=REFUSED):
        client_config(BEARER, bootstrap_servers="localhost:9092")
    with pytest.raises(ConfigurationError, match=REFUSED):
        translate_security(BEARER)
    with pytest.raises(ValueError, match=REFUSED):
        client_security({f"kafka.{key}": value for key, value in BEARER.items()}, "kafka.", is_strict=True)


def test_the_settings_of_a_client_cannot_allow_their_own_url() -> None:
    with pytest.raises(ValueError, match=REFUSED):
        client_security({**BEARER, ALLOWED_URLS: URL})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KCLI_SASL_OAUTHBEARER_ALLOWED_URLS", f"https://other, {URL}"),
        (KAFKA_OPTS, f"-Xmx1g -D{ALLOWED_URLS}=https://other,{URL} -Da=b"),
    ],
)
def test_the_environment_allows_a_url(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert client_security(BEARER).sasl is not None
    with pytest.raises(ValueError, match="The URL cannot be accessed"):
        client_security({**BEARER, KEY: URL + "/"})  # as in Kafka, the whole text must be equal


@pytest.mark.parametrize("variable", [ALLOWED_URLS, ALLOWED_FILES])
def test_a_token_file_is_allowed_by_its_url_or_its_path(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    url = "file:///etc/my%20token"
    with pytest.raises(ValueError, match="The file cannot be accessed due to restrictions"):
        client_security({**BEARER, KEY: url})
    allowed = url if variable is ALLOWED_URLS else "/etc/my token"
    name = variable.rpartition(".")[2].upper()
    monkeypatch.setenv(f"KCLI_SASL_OAUTHBEARER_ALLOWED_{name}", allowed)
    assert client_security({**BEARER, KEY: url}).sasl is not None


@pytest.mark.parametrize("key", ["file", "private.key.file", "template.file"])
def test_files_of_assertions_need_to_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    path = tmp_path / "secret"
    path.write_text("root:x:0")
    monkeypatch.setenv("KCLI_SASL_OAUTHBEARER_ALLOWED_URLS", URL)
    properties = {**SIGNED, f"{ASSERTION}.file": "ok", f"{ASSERTION}.{key}": str(path)}
    monkeypatch.setenv("KCLI_SASL_OAUTHBEARER_ALLOWED_FILES", "ok")
    with pytest.raises(ValueError, match=f"{ASSERTION}.{key}: The file cannot be accessed"):
        client_security(properties)
    monkeypatch.setenv("KCLI_SASL_OAUTHBEARER_ALLOWED_FILES", f"ok,{path}")
    assert client_security(properties).sasl is not None


def test_a_path_with_dots_is_the_path_that_is_read() -> None:
    allowed = AllowedSources(files=frozenset({"/etc/kcli/token"}))
    allowed.check_file("k", "/etc/kcli/../kcli/token")
    with pytest.raises(SourceNotAllowed):
        allowed.check_file("k", "/etc/kcli/token/../shadow")


def test_a_link_uses_the_list_of_the_node() -> None:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "SASL",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
        **{name: value for name, value in BEARER.items() if name.startswith("sasl.oauthbearer.")},
    }
    config = BrokerConfig(Properties(settings))
    with pytest.raises(ConfigError, match=REFUSED):
        LinkSecurity(lambda: config).to_brokers()
    allowing = BrokerConfig(Properties({**settings, ALLOWED_URLS: URL}))
    security = LinkSecurity(lambda: allowing).to_brokers()
    assert security is not None and security.sasl is not None


def test_an_empty_environment_allows_nothing() -> None:
    assert sources_of_environment({}) == AllowedSources()
