"""KIP-890 in a partition: a transactional batch needs a verification that no marker has overtaken."""

from __future__ import annotations

import pytest

from kcli.errors import (
    InvalidProducerEpochException,
    InvalidTxnStateException,
    OutOfOrderSequenceException,
)
from kcli.protocol.batches.batch import BatchHeader, Record, encode_batch, read_header
from kcli.protocol.batches.control import EndTransactionMarker, encode_marker_batch
from kcli.storage.log.markers import read_marker
from kcli.storage.log.producer_state import ALREADY_OPEN, ProducerState, Verification
from rigs.steps import last_of


def header(sequence: int = 0, epoch: int = 0) -> BatchHeader:
    return read_header(
        encode_batch(
            [Record(-1, 1, None, b"v")],
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


def state() -> ProducerState:
    return ProducerState("t-0", expiration_ms=1000)


def mark(producers: ProducerState, offset: int, epoch: int = 0) -> None:
    batch = encode_marker_batch(
        EndTransactionMarker(committed=False, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=epoch,
        timestamp_ms=1,
    )
    producers.update_marker(read_header(batch), offset, read_marker(batch))


def verification(
    producers: ProducerState, sequence: int = 0, epoch: int = 0, *, from_zero: bool = False, now_ms: int = 0
) -> Verification:
    return producers.verification(7, epoch, sequence, from_zero=from_zero, now_ms=now_ms)


def test_a_verified_batch_begins_the_transaction_and_the_next_need_not_ask() -> None:
    producers = state()
    producers.check_verified(header(), verification(producers))
    producers.update(header(), 0)
    assert verification(producers, 1) is ALREADY_OPEN
    producers.check_verified(header(1), ALREADY_OPEN)


def test_a_straggler_behind_the_marker_is_refused() -> None:
    producers = state()
    late = verification(producers)
    mark(producers, 0)
    with pytest.raises(InvalidTxnStateException):
        producers.check_verified(header(), late)
    producers.check_verified(header(), verification(producers))


def test_a_batch_of_an_open_transaction_that_was_closed_meanwhile_is_refused() -> None:
    producers = state()
    producers.update(header(), 0)
    found = verification(producers, 1)
    mark(producers, 1)
    with pytest.raises(InvalidTxnStateException):
        producers.check_verified(header(1), found)


def test_a_later_batch_may_not_come_before_one_that_was_tried() -> None:
    producers = state()
    found = verification(producers, 4)
    assert verification(producers, 9) is found
    with pytest.raises(OutOfOrderSequenceException):
        producers.check_verified(header(9), found)
    producers.check_verified(header(4), found)


def test_a_newer_epoch_starts_again() -> None:
    producers = state()
    verification(producers, 4)
    found = verification(producers, 6, epoch=1)
    producers.check_verified(header(6, epoch=1), found)


def test_the_second_protocol_begins_at_zero() -> None:
    producers = state()
    with pytest.raises(OutOfOrderSequenceException):
        producers.check_verified(header(3), verification(producers, 3, from_zero=True))


def test_a_verification_is_forgotten_like_its_producer() -> None:
    producers = state()
    found = verification(producers, now_ms=500)
    last_of(producers.remove_expired(1499))
    producers.check_verified(header(), found)
    last_of(producers.remove_expired(1500))
    with pytest.raises(InvalidTxnStateException):
        producers.check_verified(header(), found)


def test_offsets_of_an_older_incarnation_are_refused() -> None:
    producers = state()
    producers.update(header(epoch=2), 0)
    producers.check_epoch(header(epoch=2))
    with pytest.raises(InvalidProducerEpochException):
        producers.check_epoch(header(epoch=1))
