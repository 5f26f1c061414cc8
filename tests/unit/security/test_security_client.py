"""The properties of a client's security, with the prefix that a caller puts before their names, or without."""

from __future__ import annotations

import pytest

from kcli.security.client import PROPERTIES, ClientSecurity, client_security
from kcli.security.mechanisms.client import Credentials
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
    with pytest.raises(ValueError, match=r"^kafka\.sasl\.mechanism is OAUTHBEARER; PLAIN, SCRAM-SHA-256"):
        client_security(
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}, "kafka."
        )


@pytest.mark.parametrize("name", [name for name in PROPERTIES if name != "security.protocol"])
def test_a_property_without_effect_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} has no effect while security.protocol is PLAINTEXT$"):
        client_security({name: "x"}, is_strict=True)
    assert client_security({name: "x"}) == ClientSecurity()
