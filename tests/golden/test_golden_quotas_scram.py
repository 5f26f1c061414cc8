"""Quotas and SCRAM credentials as Kafka 4.1 wrote them to its metadata log; the same commands write the same here."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kcli.cli.tools.configs.quotas import _upsertion
from kcli.client.admin.quotas import _salted
from kcli.controller.client_quotas import alter_client_quotas
from kcli.controller.scram import alter_user_scram_credentials
from kcli.metadata.image import MetadataImage, ScramKey
from kcli.metadata.replay import ImageReplayer
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import alter_user_scram_credentials as au
from kcli.protocol.records.metadata import (
    ClientQuotaRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
)
from kcli.security.mechanisms.scram import MECHANISMS, salted_password, server_keys

TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}


@pytest.fixture
def written(golden: Path) -> list[object]:
    """Every metadata record of the log, in order."""
    content = (golden / "logdir-clean" / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    return [
        decode_metadata_record(record.value or b"")[0]
        for position, header in iter_batches(content)
        if not header.is_control
        for record in read_records(content, position)
    ]


def commands(golden: Path, *words: str) -> list[list[str]]:
    """The kafka-configs commands that set or delete a config with one of these names in it."""
    lines = (golden / "commands.tsv").read_text().splitlines()
    argv = [shlex.split(line.partition("\t")[2]) for line in lines if line.startswith("cli\tkafka-configs")]
    return [each for each in argv if any(word in each[-1] for word in words)]


def quota_request(argv: list[str]) -> aq.AlterClientQuotasRequest:
    kinds = [argv[at + 1] for at, word in enumerate(argv) if word == "--entity-type"]
    names = [
        argv[at + 1] if word == "--entity-name" else None
        for at, word in enumerate(argv)
        if word in ("--entity-name", "--entity-default")
    ]
    ops = tuple(
        aq.OpData(key=key, value=float(value or 0), remove=argv[-2] == "--delete-config")
        for key, _, value in (part.partition("=") for part in argv[-1].split(","))
    )
    entity = tuple(
        aq.RequestEntityData(entity_type=TYPES[kind], entity_name=name)
        for kind, name in zip(kinds, names, strict=True)
    )
    return aq.AlterClientQuotasRequest(entries=(aq.RequestEntryData(entity=entity, ops=ops),))


def test_alterations_write_the_quota_records_that_kafka_wrote(golden: Path, written: list[object]) -> None:
    replayer = ImageReplayer(MetadataImage())
    ours: list[object] = []
    for argv in commands(golden, "_rate", "_percentage"):
        with pytest.raises(StopIteration) as last:
            next(alter_client_quotas(lambda: replayer.image, quota_request(argv), resolvable=lambda _: True))
        decision = last.value.value
        assert decision.response.entries[0].error_message is None
        ours += decision.records
        replayer.replay(decision.records, last_offset=len(ours), epoch=1, timestamp_ms=0)
    theirs = [record for record in written if isinstance(record, ClientQuotaRecord)]
    assert len(theirs) == 9
    assert ours == theirs


def test_the_same_passwords_make_the_same_credentials(golden: Path, written: list[object]) -> None:
    """What the tool sends and the controller makes of it, with Kafka's salt."""
    theirs = [record for record in written if isinstance(record, UserScramCredentialRecord)]
    asked = [argv for argv in commands(golden, "SCRAM") if "--add-config" in argv]
    assert len(theirs) == len(asked) == 3
    image = ImageReplayer(MetadataImage())
    image.replay(
        [record for record in written if isinstance(record, FeatureLevelRecord)],
        last_offset=0,
        epoch=1,
        timestamp_ms=0,
    )
    for record, argv in zip(theirs, asked, strict=True):
        user, (name, _, value) = argv[argv.index("--entity-name") + 1], argv[-1].partition("=")
        change = _upsertion(user, MECHANISMS[name], value.strip("[]"))
        sent = au.ScramCredentialUpsertion(
            name=user,
            mechanism=change.mechanism.number,
            iterations=change.iterations,
            salt=record.salt,
            salted_password=salted_password(
                change.mechanism, change.password, record.salt, change.iterations
            ),
        )
        request = au.AlterUserScramCredentialsRequest(upsertions=(sent,))
        with pytest.raises(StopIteration) as last:
            next(alter_user_scram_credentials(lambda: image.image, request))
        assert last.value.value.records == (record,)
        # With a salt of our own it is another credential for the same password.
        fresh = _salted(change)
        assert fresh.salt != record.salt
        assert server_keys(change.mechanism, fresh.salted_password).stored_key != record.stored_key
        assert ScramKey(user, record.mechanism) not in image.image.scram
