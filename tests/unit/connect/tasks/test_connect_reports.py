"""Dead letters that cannot be written."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as Client

from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import ReportableRecord
from kcli.connect.tasks.reports import DeadLetters, SinkErrorReporter
from kcli.connect.tasks.spec import ErrorSpec
from kcli.connect.tasks.tolerance import Skipped, Stage, Tolerance
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.rdkafka.objects import Message, Producer
from rigs.connect_tasks import RdError, RdProducer, Record, messages, sink_spec

ERRORS = ErrorSpec(tolerance="all", dead_letter_topic="dead", dead_letter_headers=True)
LOST = "Could not produce message to dead letter queue. topic=dead"


def reporting(producer: object) -> tuple[Tolerance, DeadLetters]:
    tolerance = Tolerance(ERRORS, Control())
    letters = DeadLetters(sink_spec(errors=ERRORS), cast("Producer", producer), tolerance.counts)
    tolerance.reporters = [letters]
    return tolerance, letters


class RefusingProducer(RdProducer):
    """A producer whose topic refuses the record "bad"."""

    def flush(self, timeout: float = 0) -> int:
        while self.waiting:
            is_bad = self.waiting[0][0].value() == b"bad"
            self.acknowledge(1, RdError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if is_bad else None)
        return 0


def sink_record(message: Message) -> SinkRecord:
    record = ReportableRecord(message.topic(), message.partition(), message.offset())
    record.message = message
    return record


def fail() -> None:
    raise DataException("not JSON")


def test_a_dead_letter_that_is_too_large_is_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    tolerance, letters = reporting(Client({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))
    with pytest.raises(Skipped):
        tolerance.run(Record("t", b"x" * 1_000_000), Stage.VALUE_CONVERTER, "JsonConverter", fail)
    assert (tolerance.counts.dead_letter_requests, tolerance.counts.dead_letter_failures) == (1, 1)
    assert LOST in caplog.text
    letters.flush()


def test_a_record_that_a_sink_reports_must_become_a_dead_letter() -> None:
    tolerance, letters = reporting(RefusingProducer())
    (message,) = messages(["bad"])
    with pytest.raises(ConnectException, match="reported record was not written to dead") as raised:
        SinkErrorReporter(tolerance, letters).report(sink_record(message), DataException("refused"))
    assert str(raised.value.__cause__) == "refused"


def test_the_lost_dead_letter_of_another_record_is_tolerated() -> None:
    tolerance, letters = reporting(RefusingProducer())
    bad, good = messages(["bad", "good"])
    with pytest.raises(Skipped):
        tolerance.run(bad, Stage.VALUE_CONVERTER, "JsonConverter", fail)
    SinkErrorReporter(tolerance, letters).report(sink_record(good), DataException("refused"))
    assert tolerance.counts.dead_letter_failures == 1
