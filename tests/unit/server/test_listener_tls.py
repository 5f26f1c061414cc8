"""The TLS of a listener at its start: what is refused, and what the log warns of."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from kcli.config.definition import ConfigError
from kcli.config.dynamic import DynamicConfig
from kcli.config.listener_config import ListenerConfig
from kcli.security.tls.contexts import ServerStores, client_auth, server_stores
from kcli.server.logins import listener_tls
from kcli.server.logins.listener_tls import ListenerTls
from rigs.certificates import Certificates
from rigs.node import config_of
from rigs.tls import LISTENERS

SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
}


def listener(certificates: Certificates, **more: str) -> ListenerConfig:
    properties = LISTENERS | certificates.broker_config() | more
    return ListenerConfig(config_of("unused", **properties), "SSL")


def warnings(config: ListenerConfig, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.set_level(logging.WARNING)
    ListenerTls(config)
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_listener_without_a_certificate_is_refused(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match="listener SSL uses TLS and has no certificate"):
        ListenerTls(listener(certificates, **{"ssl.keystore.location": ""}))


@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "ssl.provider"])
def test_parts_of_java_that_protect_are_refused(certificates: Certificates, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} names a class or provider of Java"):
        ListenerTls(listener(certificates, **{name: "x.Y"}))


def test_keys_without_effect_are_warned_of(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"ssl.keymanager.algorithm": "PKIX", "ssl.protocol": "TLSv1.2"}
    assert warnings(listener(certificates, **more), caplog) == [
        "ssl.keymanager.algorithm does nothing: it chooses a part of Java",
        "ssl.protocol=TLSv1.2 does not limit the versions of TLS: ssl.enabled.protocols does, which is TLSv1.2,TLSv1.3",
    ]


def test_a_key_that_all_may_read_is_warned_of(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    store = shutil.copy(certificates.server.pem, tmp_path / "open.pem")
    os.chmod(store, 0o644)
    (line,) = warnings(listener(certificates, **{"ssl.keystore.location": str(store)}), caplog)
    assert line.startswith(f"{store} has the private key of the listener SSL, and every user")


def test_with_sasl_only_the_value_of_the_listener_asks_for_a_certificate(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    everywhere = listener(certificates, **SASL, **{"ssl.client.auth": "required"})
    assert client_auth(everywhere) == "none"
    (line,) = warnings(everywhere, caplog)
    assert line.endswith("set listener.name.ssl.ssl.client.auth")
    assert (
        client_auth(listener(certificates, **SASL, **{"listener.name.ssl.ssl.client.auth": "required"}))
        == "required"
    )
    assert client_auth(listener(certificates, **{"ssl.client.auth": "required"})) == "required"


def test_the_inter_broker_listener_must_be_able_to_connect_to_itself(certificates: Certificates) -> None:
    foreign = {"ssl.keystore.location": certificates.server_other.pem}
    ListenerTls(listener(certificates, **foreign))
    with pytest.raises(ConfigError, match="PKIX path building failed"):
        ListenerTls(listener(certificates, **foreign, **{"inter.broker.listener.name": "SSL"}))
    expired = {"ssl.keystore.location": certificates.server_expired.pem}
    with pytest.raises(ConfigError, match="certificate has expired"):
        ListenerTls(listener(certificates, **expired, **{"inter.broker.listener.name": "SSL"}))


def test_after_a_failed_change_the_wanted_files_are_watched(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    tls = ListenerTls(listener(certificates))
    first = tls.served.context
    wanted = tmp_path / "wanted.pem"
    after = listener(certificates, **{"ssl.keystore.location": str(wanted)}).config
    tls.change(after)
    tls.change(after)
    tls.look()
    assert tls.served.context is first
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    shutil.copy(certificates.server.pem, wanted)
    tls.look()
    assert tls.served.context is not first


def test_a_variable_in_a_dynamic_value_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2024-31141: a client that may change configs must not read the environment or files of the broker."""
    monkeypatch.setenv("KCLI_SECRET", "secret")
    providers = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    dynamic = DynamicConfig(config_of("unused", **providers))
    name = "listener.name.ssl.ssl.keystore.location"
    dynamic.update(default={}, own={name: "${env:KCLI_SECRET}"})
    assert dynamic.current.texts[name] == "${env:KCLI_SECRET}"


def test_stored_passwords_are_not_described() -> None:
    dynamic = DynamicConfig(config_of("unused"))
    dynamic.update(default={}, own={"listener.name.ssl.ssl.keystore.password": "a-secret"})
    assert "a-secret" not in repr(dynamic.describe_broker())


def test_a_file_that_changes_while_a_listener_starts_is_loaded_again(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / "store.pem"
    shutil.copy(certificates.server.pem, store)
    load = server_stores

    def load_and_change(config: ListenerConfig) -> ServerStores:
        found = load(config)
        monkeypatch.setattr(listener_tls, "server_stores", load)
        store.write_text(Path(certificates.server.pem).read_text() + "\n")
        return found

    monkeypatch.setattr(listener_tls, "server_stores", load_and_change)
    tls = ListenerTls(listener(certificates, **{"ssl.keystore.location": str(store)}))
    before = tls.served.context
    tls.look()
    assert tls.served.context is not before


def test_a_changed_pkcs12_store_is_loaded_in_a_thread(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library checks the primes of an RSA key for up to 0.3 s, and the event loop must not wait for it."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = tmp_path / "store.p12"
    shutil.copy(certificates.server.pkcs12("one"), store)
    tls = ListenerTls(
        listener(
            certificates,
            **{
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(store),
                "ssl.keystore.password": "one",
            },
        )
    )
    loads: list[int] = []
    load = pkcs12.load_pkcs12

    def counted(*arguments: Any) -> Any:
        loads.append(threading.get_ident())
        return load(*arguments)

    monkeypatch.setattr(pkcs12, "load_pkcs12", counted)
    first = tls.served.context
    tls.prepare()
    assert not loads, "the file has not changed"
    store.unlink()
    content = pkcs12.serialize_key_and_certificates(
        b"another alias", certificates.server.private_key, certificates.server.certificate, None,
        BestAvailableEncryption(b"one"),
    )  # fmt: skip
    store.write_bytes(content)
    thread = threading.Thread(target=tls.prepare)
    thread.start()
    thread.join()
    assert loads == [thread.ident]
    tls.look()
    assert tls.served.context is not first
    assert loads == [thread.ident], "the event loop has found the store loaded"


def test_a_store_that_cannot_be_prepared_is_reported_by_the_loop(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    store = tmp_path / "store.pem"
    shutil.copy(certificates.server.pem, store)
    tls = ListenerTls(listener(certificates, **{"ssl.keystore.location": str(store)}))
    store.write_text("damaged")
    tls.prepare()
    assert not caplog.records
    tls.look()
    assert "keeps its certificates" in caplog.text
