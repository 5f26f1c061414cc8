"""The properties of a client's security, with the prefix that a caller puts before their names, or without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.security.client import PROPERTIES, ClientSecurity, client_security
from kcli.security.mechanisms.client import Credentials, KerberosCredentials
from kcli.security.tls.contexts import ClientTls

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_a_login_over_tls_is_read(prefix: str) -> None:
    found = client_security({f"{prefix}{name}": value for name, value in LOGIN.items()}, prefix)
    assert found.tls == ClientTls()
    assert found.sasl == Credentials("PLAIN", "alice", "secret")
    assert "secret" not in repr(found)


def test_without_properties_a_client_connects_in_plain_text() -> None:
    found = client_security({"bootstrap.servers": "h:9092"})
    assert (found.tls, found.sasl) == (None, None)


def test_an_error_names_the_property_as_the_caller_wrote_it() -> None:
    with pytest.raises(
        ValueError, match=r"^sasl\.jaas\.config has no username: expected … required username="
    ):
        client_security(LOGIN | {"sasl.jaas.config": "a.B required;"})
    with pytest.raises(ValueError, match=r"^kafka\.sasl\.mechanism is OTHER; PLAIN, SCRAM-SHA-256"):
        client_security({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OTHER"}, "kafka.")


def test_a_missing_line_of_jaas_has_the_text_of_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    text = (
        r"^Could not find a 'KafkaClient' entry in the JAAS configuration. System property "
        r"'java\.security\.auth\.login\.config' is not set$"
    )
    with pytest.raises(ValueError, match=text):
        client_security({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"})


@pytest.mark.parametrize("is_variable", [True, False])
def test_a_jaas_file_has_a_section_for_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_variable: bool
) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text('KafkaClient { a.PlainLoginModule required username="alice" password="secret"; };')
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    if is_variable:
        monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1G -Djava.security.auth.login.config={path} -Da=b")
    else:
        properties["java.security.auth.login.config"] = str(path)
    assert client_security(properties).sasl == Credentials("PLAIN", "alice", "secret")
    path.write_text("Other { a.B required; };")
    with pytest.raises(ValueError, match="Could not find a 'KafkaClient' entry"):
        client_security(properties)


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "security.protocol"])
def test_a_property_without_effect_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} has no effect while security.protocol is PLAINTEXT$"):
        client_security({name: "x"}, is_strict=True)
    assert client_security({name: "x"}) == ClientSecurity()


KERBEROS = {
    "security.protocol": "SASL_SSL",
    "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required ",
}


@pytest.mark.parametrize(
    ("options", "properties", "found"),
    [
        (
            'useKeyTab=true keyTab="/k" principal="alice@R";',
            {"sasl.kerberos.service.name": "kafka"},
            KerberosCredentials("kafka", "alice@R", "/k"),
        ),
        ('useTicketCache=true serviceName="kafka";', {}, KerberosCredentials("kafka")),
    ],
)
def test_kerberos_is_the_default_mechanism(
    options: str, properties: dict[str, str], found: KerberosCredentials
) -> None:
    jaas = {"sasl.jaas.config": KERBEROS["sasl.jaas.config"] + options}
    assert client_security(KERBEROS | properties | jaas).sasl == found


@pytest.mark.parametrize(
    ("service", "words"),
    [(None, "^No serviceName defined in either"), ("other", "^Conflicting serviceName values found in JAAS")],
)
def test_the_service_of_kerberos_has_one_name(service: str | None, words: str) -> None:
    options = "useTicketCache=true;" if service is None else 'serviceName="kafka";'
    properties = {} if service is None else {"sasl.kerberos.service.name": service}
    jaas = {"sasl.jaas.config": KERBEROS["sasl.jaas.config"] + options}
    with pytest.raises(ValueError, match=words):
        client_security(KERBEROS | properties | jaas)
