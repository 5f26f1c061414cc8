"""Credentials, quotas and log levels through clients of other projects, and through the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools.metadata_shell.loader import loaded_image
from kcli.metadata.image import ScramKey
from kcli.security.mechanisms.scram import MECHANISMS, salted_password, server_keys
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat


def test_confluent_scram_credentials(broker: BrokerProcess) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = UserScramCredentialUpsertion("ck-alice", info, b"ck-password", b"ck-salt")
    admin.alter_user_scram_credentials([upsertion])["ck-alice"].result(30)
    described = admin.describe_user_scram_credentials(["ck-alice"])["ck-alice"].result(30)
    (told,) = described.scram_credential_infos
    assert (told.mechanism, told.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)
    everybody = admin.describe_user_scram_credentials().result(30)
    assert everybody["ck-alice"].scram_credential_infos[0].iterations == 8192
    deletion = UserScramCredentialDeletion("ck-alice", ScramMechanism.SCRAM_SHA_512)
    with pytest.raises(KafkaException, match="Attempt to delete a user credential that does not exist"):
        admin.alter_user_scram_credentials([deletion])["ck-alice"].result(30)
    few = UserScramCredentialUpsertion(
        "ck-alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1000), b"p"
    )
    with pytest.raises(KafkaException, match="Too few iterations"):
        admin.alter_user_scram_credentials([few])["ck-alice"].result(30)
    deletion = UserScramCredentialDeletion("ck-alice", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["ck-alice"].result(30)
    with pytest.raises(KafkaException, match="does not exist: ck-alice"):
        admin.describe_user_scram_credentials(["ck-alice"])["ck-alice"].result(30)


def test_kafka_python_scram_credentials(broker: BrokerProcess) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import UserScramCredentialUpsertion

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion("kp-bob", "SCRAM-SHA-512", "kp-password", iterations=4096)]
        )
        assert "kp-bob" in str(admin.describe_user_scram_credentials(["kp-bob"]))
    finally:
        admin.close()


def test_the_metadata_log_stores_keys_of_a_password_and_not_the_password(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """A credential of the command line, in the metadata log: keys derived from the password, not the password."""
    given = "SCRAM-SHA-512=[iterations=4097,password=cli-password]"
    server = ["--bootstrap-server", broker.bootstrap]
    assert run(["configs", *server, "--alter", "--user", "cli-carol", "--add-config", given]) == 0
    (segment,) = broker.directory.glob("**/__cluster_metadata-0/00000000000000000000.log")
    copy = tmp_path / segment.parent.name / segment.name
    copy.parent.mkdir()
    shutil.copy(segment, copy)
    credential = loaded_image(str(copy)).scram[ScramKey("cli-carol", 2)]
    mechanism = MECHANISMS["SCRAM-SHA-512"]
    keys = server_keys(mechanism, salted_password(mechanism, b"cli-password", credential.salt, 4097))
    assert (credential.stored_key, credential.server_key) == (keys.stored_key, keys.server_key)
    assert credential.iterations == 4097
    assert b"cli-password" not in copy.read_bytes()
    assert "cli-password" not in broker.log_path.read_text()


def test_librdkafka_sees_the_throttle_time(broker: BrokerProcess) -> None:
    """How long it takes is the simulation's matter; here a client reads the throttle time in the answers."""
    from confluent_kafka import Producer

    server = ["--bootstrap-server", broker.bootstrap, "--alter", "--client", "ck-throttled"]
    assert run(["configs", *server, "--add-config", "producer_byte_rate=10000"]) == 0
    told: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "ck-throttled",
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    # Ten seconds of the quota go through at once, and then a tenth of a second's worth more.
    for _ in range(101):
        producer.produce("ck-quota", bytes(1_000), partition=0)
        producer.flush(30)
    try:
        producer.poll(0)
        assert told
        assert 0 < max(told) < 5
    finally:
        assert run(["configs", *server, "--delete-config", "producer_byte_rate"]) == 0


def test_log_levels_change_while_the_broker_runs(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    loggers = [
        "--bootstrap-server",
        broker.bootstrap,
        "--entity-type",
        "broker-loggers",
        "--entity-name",
        "1",
    ]
    name = "kafka.server.Scheduler"

    def shown() -> str:
        capsys.readouterr()
        assert run(["configs", *loggers, "--describe"]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"  {name}=")]
        return line

    assert run(["configs", *loggers, "--alter", "--add-config", f"{name}=ERROR"]) == 0
    assert capsys.readouterr().out == "Completed updating config for broker-logger 1.\n"
    assert shown() == f"  {name}=ERROR sensitive=false synonyms={{}}"
    assert run(["configs", *loggers, "--alter", "--add-config", f"{name}=WARN", "--dry-run"]) == 0
    assert "=ERROR" in shown()
    assert run(["configs", *loggers, "--alter", "--delete-config", name]) == 0
    assert "=INFO" in shown()
    assert run(["configs", *loggers, "--alter", "--add-config", f"{name}=LOUD"]) == 1
    assert "LOUD as it is not a supported log level" in capsys.readouterr().err
