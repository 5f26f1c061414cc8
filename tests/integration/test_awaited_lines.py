"""Lines of the log that fixtures of other projects wait for: they have Kafka's words."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kcli.protocol.messages import alter_user_scram_credentials as scram
from kcli.protocol.wire.api import ApiKey
from rigs.node import RunningNode, connect, with_node

SHA_256, SHA_512 = 1, 2


def test_lines_of_a_start_and_of_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def credential(mechanism: int) -> scram.ScramCredentialUpsertion:
        return scram.ScramCredentialUpsertion(
            name="alice", mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"x" * 32
        )

    async def story(node: RunningNode) -> None:
        client = await connect(node)
        for changes in ((credential(SHA_256),), (credential(SHA_256), credential(SHA_512))):
            for change in changes:
                request = scram.AlterUserScramCredentialsRequest(upsertions=(change,))
                await client.call(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
        removal = scram.ScramCredentialDeletion(name="alice", mechanism=SHA_512)
        request = scram.AlterUserScramCredentialsRequest(deletions=(removal,))
        await client.call(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)

    with caplog.at_level(logging.INFO):
        with_node(tmp_path, story)
    lines = [record.getMessage() for record in caplog.records]
    awaited = [line for line in lines if "Replayed" in line or "[BrokerLifecycleManager id=1]" in line]
    epoch = awaited[0].rpartition(" ")[2]
    assert awaited == [
        f"[BrokerLifecycleManager id=1] Successfully registered broker 1 with broker epoch {epoch}",
        "[BrokerLifecycleManager id=1] The broker has caught up. Transitioning from STARTING to RECOVERY.",
        "[BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
        "Replayed UserScramCredentialRecord creating new entry for alice with mechanism SCRAM_SHA_256.",
        "Replayed UserScramCredentialRecord modifying existing entry for alice with mechanism SCRAM_SHA_256.",
        "Replayed UserScramCredentialRecord creating new entry for alice with mechanism SCRAM_SHA_512.",
        "Replayed RemoveUserScramCredentialRecord for alice with mechanism SCRAM_SHA_512.",
    ]
    assert "[KafkaRaftServer nodeId=1] Kafka Server started" in lines
    assert any(line.startswith("Awaiting socket connections on ") for line in lines)
