"""Transactions."""
# ruff: noqa: E501  (a table reads best with one case to a line)

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import PRODUCER, Case, Data

_ID = "twin-tx"


def _of(producer_id: int, epoch: int = 0, **about: Data) -> dict[str, Data]:
    return {"transactional_id": _ID, "producer_id": producer_id, "producer_epoch": epoch, **about}


def _add(producer_id: int, *topics: str, epoch: int = 0) -> dict[str, Data]:
    named: list[Data] = [{"name": name, "partitions": [0]} for name in topics]
    request = _of(producer_id, epoch, topics=named)
    return {f"v3_and_below_{field}": value for field, value in request.items()}


def _offsets(producer_id: int, *topics: str, group: str = "twin-o2", epoch: int = 0) -> dict[str, Data]:
    named: list[Data] = [
        {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 3}]} for name in topics
    ]
    return _of(producer_id, epoch, group_id=group, topics=named)


_CODES = "topics.partitions.error_code"
_ADDED = "results_by_topic_v3_and_below.results_by_partition.partition_error_code"

TRANSACTIONS = (
    Case("of transactions", ApiKey.FIND_COORDINATOR, {"key": _ID, "key_type": 1}, {"error_code": 0}, since=1, until=3),
    Case("a transaction of another producer, only checked", ApiKey.ADD_PARTITIONS_TO_TXN,
         {"transactions": [_of(9999, verify_only=True, topics=[{"name": "twin-a", "partitions": [0]}])]},
         {"error_code": 0, "results_by_transaction.topic_results.results_by_partition.partition_error_code": 49}, since=4),
    Case("an idempotent producer", ApiKey.INIT_PRODUCER_ID, {"transactional_id": None}, {"error_code": 0, "producer_epoch": 0}),
    Case("an empty id", ApiKey.INIT_PRODUCER_ID, {"transactional_id": ""}, {"error_code": 42, "producer_id": -1}),
    Case("a long timeout", ApiKey.INIT_PRODUCER_ID, {"transactional_id": _ID, "transaction_timeout_ms": 2**31 - 1}, {"error_code": 50}),
    Case("a producer of transactions", ApiKey.INIT_PRODUCER_ID, {"transactional_id": _ID, "transaction_timeout_ms": 60_000},
         {"error_code": 0, "producer_epoch": 0}, until=0),
    Case("of another producer", ApiKey.ADD_PARTITIONS_TO_TXN, _add(9999, "twin-a"), {_ADDED: 49}, until=3),
    Case("a topic that is there and one that is not", ApiKey.ADD_PARTITIONS_TO_TXN, _add(PRODUCER, "twin-a", "twin-nope"),
         {_ADDED: (55, 3)}, until=3),
    Case("a topic", ApiKey.ADD_PARTITIONS_TO_TXN, _add(PRODUCER, "twin-a"), {_ADDED: 0}, until=3),
    Case("a wrong epoch", ApiKey.ADD_PARTITIONS_TO_TXN, _add(PRODUCER, "twin-a", epoch=5), until=3),
    Case("a group of another producer", ApiKey.ADD_OFFSETS_TO_TXN, _of(9999, group_id="twin-o2"), {"error_code": 49}),
    Case("a group", ApiKey.ADD_OFFSETS_TO_TXN, _of(PRODUCER, group_id="twin-o2"), {"error_code": 0}),
    Case("offsets of another producer; a missing topic", ApiKey.TXN_OFFSET_COMMIT, _offsets(9999, "twin-a", "twin-nope"),
         {_CODES: (49, 3)}),
    Case("missing topics only", ApiKey.TXN_OFFSET_COMMIT, _offsets(9999, "twin-nope"), {_CODES: 3}),
    Case("no group", ApiKey.TXN_OFFSET_COMMIT, _offsets(PRODUCER, "twin-a", group=""), {_CODES: 24}),
    Case("no topic", ApiKey.TXN_OFFSET_COMMIT, _offsets(9999), {"topics": ()}),
    Case("offsets", ApiKey.TXN_OFFSET_COMMIT, _offsets(PRODUCER, "twin-a"), {_CODES: 0}),
    Case("an open transaction, an unknown one", ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [_ID, "twin-none"]},
         {"transaction_states.error_code": (0, 105), "transaction_states.transaction_state": ("Ongoing", "")}),
    Case("open transactions", ApiKey.LIST_TRANSACTIONS, {"state_filters": ["Ongoing", "Cat"]},
         {"error_code": 0, "unknown_state_filters": "Cat", "transaction_states.transactional_id": _ID}),
    Case("a pattern that is none", ApiKey.LIST_TRANSACTIONS, {"transactional_id_pattern": "("}, {"error_code": 128}, since=2),
    Case("of another producer", ApiKey.END_TXN, _of(9999, committed=True), {"error_code": 49}),
    Case("an unknown id", ApiKey.END_TXN, {"transactional_id": "twin-none", "producer_id": 1, "committed": True}, {"error_code": 49}),
    Case("an abort", ApiKey.END_TXN, _of(PRODUCER, committed=False), {"error_code": 0}, until=0),
    Case("a marker of no transaction; a missing partition", ApiKey.WRITE_TXN_MARKERS,
         {"markers": [{"producer_id": 9998, "transaction_result": False, "coordinator_epoch": 0,
                       "topics": [{"name": "twin-a", "partition_indexes": [0, 9]}]}]},
         {"markers.topics.partitions.error_code": (0, 3)}),
)  # fmt: skip
