"""The table: valid, unusual and invalid requests of every served API, in the order in which they are sent."""

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers.served import SERVED
from rigs.twin.case import Case
from rigs.twin.configs import CONFIGS
from rigs.twin.groups import GROUPS
from rigs.twin.records import RECORDS
from rigs.twin.security import SECURITY
from rigs.twin.topics import TOPICS
from rigs.twin.transactions import TRANSACTIONS

EMPTY = tuple(
    Case("nothing but defaults", key)
    for key in sorted(SERVED)
    # A produce of version 12 and below with acks=0 has no answer. The id of a broker or voter is 0 by default.
    if key not in (ApiKey.PRODUCE, ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
)

TABLE = (*TOPICS, *RECORDS, *CONFIGS, *GROUPS, *TRANSACTIONS, *SECURITY, *EMPTY)
