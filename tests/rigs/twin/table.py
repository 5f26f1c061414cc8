"""The table: valid, unusual and invalid requests of every served API, in the order in which they are sent."""

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from kcli.server.requests.apis import served_on_broker
from rigs.twin.case import Case
from rigs.twin.configs import CONFIGS
from rigs.twin.groups import GROUPS
from rigs.twin.records import RECORDS
from rigs.twin.security import SECURITY
from rigs.twin.topics import TOPICS
from rigs.twin.transactions import TRANSACTIONS

NOT_BY_DEFAULT = (
    ApiKey.PRODUCE,  # with acks=0, version 12 and below have no answer
    ApiKey.UNREGISTER_BROKER,  # the id is 0
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.DESCRIBE_ACLS,  # a filter of UNKNOWN elements closes the connection
)

EMPTY = tuple(Case("nothing but defaults", key) for key in served_on_broker() if key not in NOT_BY_DEFAULT)

TABLE = (*TOPICS, *RECORDS, *CONFIGS, *GROUPS, *TRANSACTIONS, *SECURITY, *EMPTY)
