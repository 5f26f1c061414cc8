"""The client settings with which a node connects to other nodes."""

from __future__ import annotations

import logging
import os
import shutil
import ssl
from pathlib import Path

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.properties import Properties
from kcli.security.mechanisms.client import Credentials
from kcli.server.logins.link_security import (
    BROKER_MECHANISM,
    CONTROLLER_MECHANISM,
    LinkSecurity,
    link_properties,
)
from rigs.certificates import Certificates

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def config_of(**overrides: str) -> BrokerConfig:
    """A broker with the listeners CLIENTS and BROKERS. An underscore in a key stands for a dot."""
    return BrokerConfig(
        Properties(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "CLIENTS://:1,BROKERS://:2,CONTROLLER://:3",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
                "inter.broker.listener.name": "brokers",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@a:1,2@b:1",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "sasl.mechanism.controller.protocol": "PLAIN",
                **{key.replace("_", "."): text for key, text in overrides.items()},
            }
        )
    )


USERS = {
    "listener.name.brokers.scram-sha-256.sasl.jaas.config": f'{SCRAM} required username="b" password="p1";',
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required username="c" password="p2";',
}

OTHER_NAMES = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}


def links(config: BrokerConfig) -> LinkSecurity:
    return LinkSecurity(lambda: config)


def test_each_link_takes_the_user_and_the_mechanism_of_its_listener() -> None:
    security = links(config_of(**USERS))
    to_brokers, to_controllers = security.to_brokers(), security.to_controllers()
    assert to_brokers is not None and to_controllers is not None
    assert to_brokers.sasl == Credentials("SCRAM-SHA-256", "b", "p1")
    assert to_controllers.sasl == Credentials("PLAIN", "c", "p2")
    assert "p1" not in repr(to_brokers)


def test_a_plaintext_listener_needs_no_settings() -> None:
    config = config_of(**{"inter.broker.listener.name": "CLIENTS"})
    assert links(config).to_brokers() is None
    assert link_properties(config, "CLIENTS", BROKER_MECHANISM) == {"security.protocol": "PLAINTEXT"}


def test_keys_with_the_prefix_of_the_listener_take_precedence() -> None:
    config = config_of(
        **{
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:SSL,CONTROLLER:PLAINTEXT",
            "ssl.truststore.location": "/all.pem",
            "ssl.truststore.type": "PEM",
            "listener.name.brokers.ssl.truststore.location": "/brokers.pem",
            "ssl.client.auth": "required",
            "sasl.jaas.config": "no mechanism",
        }
    )
    assert link_properties(config, "BROKERS", BROKER_MECHANISM) == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/brokers.pem",
        "ssl.truststore.type": "PEM",
    }


def test_a_login_module_may_be_in_the_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f'KafkaServer {{ {PLAIN} required username="n" password="a\\"b\\\\c"; }};')
    config = config_of(**{"java.security.auth.login.config": str(file)})
    found = links(config).to_controllers()
    assert found is not None
    assert found.sasl == Credentials("PLAIN", "n", 'a"b\\c')


def test_new_settings_count_from_the_next_connection_on() -> None:
    current = [config_of(**USERS)]
    security = LinkSecurity(lambda: current[0])
    first = security.to_controllers()
    assert security.to_controllers() is first
    current[0] = config_of(
        **USERS
        | {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required username="d" password="p3";'}
    )
    changed = security.to_controllers()
    assert changed is not None and changed.sasl == Credentials("PLAIN", "d", "p3")


def test_a_node_that_needs_others_does_not_start_without_a_user() -> None:
    with pytest.raises(ConfigError) as error:
        list(links(config_of()).check())
    assert "KafkaServer" in str(error.value)


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError) as error:
        links(config_of(**{CONTROLLER_MECHANISM: "MD5"})).to_controllers()
    assert str(error.value).startswith("MD5 is not a SASL mechanism; expected PLAIN, ")


def test_a_node_that_is_alone_is_only_warned() -> None:
    (one, two) = links(config_of(**{"controller.quorum.voters": "1@a:1"})).check()
    assert one.startswith("This node cannot connect to other nodes over the listener BROKERS: ")
    assert two.startswith("This node cannot connect to other nodes over the listener CONTROLLER: ")


def test_scram_between_controllers_is_warned_of() -> None:
    jaas = f'{SCRAM} required username="c" password="p";'
    config = config_of(
        **USERS
        | {
            CONTROLLER_MECHANISM: "SCRAM-SHA-512",
            "listener.name.controller.scram-sha-512.sasl.jaas.config": jaas,
        }
    )
    (warning,) = links(config).check()
    assert "a new quorum cannot form" in warning


def encrypted(certificates: Certificates, **more: str) -> dict[str, str]:
    """The settings of encrypted links. Each call writes the files of the authorities again."""
    protocols = {"listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:SSL,CONTROLLER:SSL"}
    return protocols | certificates.broker_config() | more


def context(security: LinkSecurity) -> ssl.SSLContext:
    found = security.to_brokers()
    assert found is not None and found.tls is not None
    return found.tls.context()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def test_the_context_of_a_link_stays_until_a_file_changes(tmp_path: Path, certificates: Certificates) -> None:
    store = tmp_path / "server.pem"
    shutil.copy(certificates.server.pem, store)
    keys = encrypted(certificates, **{"ssl.keystore.location": str(store)}, **OTHER_NAMES)
    current = [config_of(**keys)]
    security = LinkSecurity(lambda: current[0])
    first = context(security)
    assert context(security) is first
    current[0] = config_of(**keys | {"log.retention.ms": "1000"})
    assert context(security) is first
    os.replace(shutil.copy(certificates.bob.pem, tmp_path / "new.pem"), store)
    second = context(security)
    assert second is not first
    current[0] = config_of(**keys | {"ssl.enabled.protocols": "TLSv1.3"})
    third = context(security)
    assert third is not second and third.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_link_refuses_another_name_as_its_listener_does(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "server.pem"
    shutil.copy(certificates.server.pem, store)
    keys = encrypted(certificates, **{"ssl.keystore.location": str(store)})
    current = [config_of(**keys)]
    security = LinkSecurity(lambda: current[0])
    first = context(security)
    os.replace(shutil.copy(certificates.bob.pem, tmp_path / "new.pem"), store)
    assert context(security) is first
    (line,) = errors(caplog)
    assert "Keystore DistinguishedName does not match" in line
    current[0] = config_of(**keys | OTHER_NAMES)
    os.utime(store, (1, 1))
    assert context(security) is not first
    os.replace(shutil.copy(certificates.server.pem, tmp_path / "again.pem"), store)
    current[0] = config_of(**keys)
    refused = context(security)
    assert len(errors(caplog)) == 2, "the names are those of the newest context"
    assert context(security) is refused


def test_links_keep_their_context_while_the_stores_cannot_be_used(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "server.pem"
    shutil.copy(certificates.server.pem, store)
    keys = encrypted(certificates, **{"ssl.keystore.location": str(store)}, **OTHER_NAMES)
    current = [config_of(**keys)]
    security = LinkSecurity(lambda: current[0])
    good = context(security)
    store.write_bytes(b"-----BEGIN PRIVATE KEY-----\n")
    assert context(security) is good and context(security) is good
    (line,) = errors(caplog)
    assert line.startswith("The connections to other nodes over the listener BROKERS keep their certificates")
    missing = tmp_path / "missing.pem"
    current[0] = config_of(**keys | {"ssl.keystore.location": str(missing)})
    assert context(security) is good
    assert len(errors(caplog)) == 2
    shutil.copy(certificates.bob.pem, missing)
    assert context(security) is not good


def test_links_without_a_good_context_fail(tmp_path: Path, certificates: Certificates) -> None:
    missing = {"ssl.keystore.location": str(tmp_path / "missing.pem")}
    security = links(config_of(**encrypted(certificates, **missing)))
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"missing\.pem"):
            context(security)
