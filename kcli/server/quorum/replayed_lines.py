"""Lines of the controller's log about records that it has written, in Kafka's words. Tests of other projects wait for
these lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kcli.metadata.image import ScramCredential, ScramKey
from kcli.protocol.records.metadata import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

_log = logging.getLogger("kcli.server.ScramControlManager")

_MECHANISMS = {1: "SCRAM_SHA_256", 2: "SCRAM_SHA_512"}


def log_credentials(before: Mapping[ScramKey, ScramCredential], records: Sequence[MetadataRecord]) -> None:
    """Logs each credential of SCRAM that the records store or remove. `before` has the credentials before them."""
    new = set[ScramKey]()
    for record in records:
        if not isinstance(record, UserScramCredentialRecord | RemoveUserScramCredentialRecord):
            continue
        key, mechanism = ScramKey(record.name, record.mechanism), _MECHANISMS.get(record.mechanism, "UNKNOWN")
        if isinstance(record, RemoveUserScramCredentialRecord):
            _log.info(
                "Replayed RemoveUserScramCredentialRecord for %s with mechanism %s.", record.name, mechanism
            )
            new.discard(key)
            continue
        is_known = key in before or key in new
        new.add(key)
        _log.info(
            "Replayed UserScramCredentialRecord %s entry for %s with mechanism %s.",
            "modifying existing" if is_known else "creating new",
            record.name,
            mechanism,
        )
