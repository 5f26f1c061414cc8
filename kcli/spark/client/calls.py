"""Lists the APIs that the client of kcli's Spark source calls, with their messages and the versions that the client
supports.

Every broker since Apache Kafka 2.5, and every broker of kcli, supports at least one of these versions of each API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kcli.protocol.messages.produce import ProduceRequest, ProduceResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kcli.protocol.wire.api import API, ApiKey

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Call(Generic[RequestT, AnswerT]):
    """An API with its request and response messages.

    The client supports the versions from `first` to `last`. If `last` is None, the range ends at the newest version.
    """

    key: ApiKey
    request: type[RequestT]
    answer: type[AnswerT]
    first: int
    last: int | None

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last version that the client supports."""
        return self.first, API[self.key].max_version if self.last is None else self.last


# Every broker answers version 0. The answer has the version ranges, and the client needs nothing else.
API_VERSIONS = Call(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse, 0, 0)
SASL_HANDSHAKE = Call(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse, 1, 1)
SASL_AUTHENTICATE = Call(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse, 0, 2)

METADATA = Call(ApiKey.METADATA, MetadataRequest, MetadataResponse, 4, None)
LIST_OFFSETS = Call(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse, 2, None)
# From version 4 of CreateTopics on, -1 requests the broker's default number of partitions or replicas.
CREATE_TOPICS = Call(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, 4, None)
# From version 4 on, Fetch has batches of magic 2. From version 13 on, Fetch names topics by id.
FETCH = Call(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 12)

INIT_PRODUCER_ID = Call(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse, 0, None)
# From version 12 on, Produce uses version 2 of the transaction protocol (TV2), which this client does not speak.
PRODUCE = Call(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 3, 11)
# From version 4 on, a FindCoordinator request has several keys.
FIND_COORDINATOR = Call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, 1, 3)
# From version 7 on, OffsetFetch has require_stable. From version 8 on, a request has several groups.
OFFSET_FETCH = Call(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 7, 7)
# From version 4 on, AddPartitionsToTxn is only for brokers.
ADD_PARTITIONS_TO_TXN = Call(
    ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, 0, 3
)
ADD_OFFSETS_TO_TXN = Call(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, 0, 3)
TXN_OFFSET_COMMIT = Call(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse, 0, 3)
END_TXN = Call(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse, 0, 3)
