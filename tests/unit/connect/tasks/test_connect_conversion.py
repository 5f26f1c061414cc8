"""Conversion of batches, and the way of single records if one of them is bad."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import Outgoing, ReportableRecord, SinkConversion, SourceConversion
from kcli.connect.tasks.plugins import Plugins, Step
from kcli.connect.tasks.spec import ErrorSpec
from kcli.connect.tasks.tolerance import Failure, Tolerance
from kcli.connectors.records import ConnectRecord, Header, SinkRecord, SourceRecord
from kcli.connectors.transformation import Predicate, Transformation
from kcli.formats.connect.errors import ConnectException
from rigs.connect_plugins import Flaky, PlainText
from rigs.connect_tasks import Record, messages


class Rename(Transformation[ConnectRecord]):
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return replace(record, topic=f"new-{record.topic}")


class HasValue(Predicate[ConnectRecord]):
    def test(self, record: ConnectRecord) -> bool:
        return record.value == "this"


class Reports(list[Failure]):
    def report(self, failure: Failure) -> None:
        self.append(failure)


def plugins(*steps: Step) -> Plugins:
    text = PlainText()
    return Plugins(text, text, text, "Key", "Value", "Header", steps)


def tolerance(kind: str = "all") -> tuple[Tolerance, Reports]:
    reports = Reports()
    return Tolerance(ErrorSpec(tolerance=kind), Control(), [reports]), reports


def source(value: object, **more: object) -> SourceRecord:
    return SourceRecord(None, None, "t", value, **more)


def test_a_batch_of_good_records() -> None:
    rules, reports = tolerance()
    records = [
        source("a", key="k", partition=2, timestamp=5),
        source("b", headers=[Header("h", None, "x")], timestamp=-1),
    ]
    assert SourceConversion(plugins(), rules).convert(records) == [
        Outgoing("t", b"a", b"k", 2, 5, None),
        Outgoing("t", b"b", None, -1, 0, [("h", b"x")]),
    ]
    assert reports == []


def test_a_bad_record_is_left_out_and_reported_with_its_stage() -> None:
    rules, reports = tolerance()
    records = [
        source("a"),
        source(1),
        source("b", key=2),
        source("c", headers=[Header("h", None, 3)]),
        source("d"),
    ]
    converted = list(SourceConversion(plugins(), rules).convert(records))
    assert [item and item.value for item in converted] == [b"a", None, None, None, b"d"]
    assert [(failure.stage, failure.class_name, failure.record) for failure in reports] == [
        ("VALUE_CONVERTER", "Value", records[1]),
        ("KEY_CONVERTER", "Key", records[2]),
        ("HEADER_CONVERTER", "Header", records[3]),
    ]


def test_without_tolerance_the_records_before_the_bad_one_are_still_converted() -> None:
    rules, _ = tolerance("none")
    converted = iter(SourceConversion(plugins(), rules).convert([source("a"), source(1)]))
    first = next(converted)
    assert first is not None
    assert first.value == b"a"
    with pytest.raises(ConnectException, match="Tolerance exceeded in error handler"):
        next(converted)


def test_an_invalid_timestamp_fails_the_task() -> None:
    rules, _ = tolerance()
    with pytest.raises(ConnectException, match="Invalid record timestamp -2"):
        list(SourceConversion(plugins(), rules).convert([source("a", timestamp=-2)]))


def test_transformations_change_drop_and_fail_records() -> None:
    rules, reports = tolerance()
    flaky = Flaky()
    flaky.configure({})
    steps = (Step("Rename", Rename(), HasValue(), False), Step("Flaky", flaky, None, False))
    records = [source("this"), source("that"), source("drop"), source("bad")]
    converted = list(SourceConversion(plugins(*steps), rules).convert(records))
    assert [item and item.topic for item in converted] == ["new-t", "t", None, None]
    assert [(failure.stage, failure.class_name) for failure in reports] == [("TRANSFORMATION", "Flaky")]


def test_a_negated_predicate_applies_to_all_other_records() -> None:
    rules, _ = tolerance()
    step = Step("Rename", Rename(), HasValue(), True)
    converted = list(SourceConversion(plugins(step), rules).convert([source("this"), source("that")]))
    assert [item and item.topic for item in converted] == ["t", "new-t"]


def test_consumed_messages_become_records() -> None:
    rules, _ = tolerance()
    message = Record("t", b"a", b"k", 3, 7, [("h", b"x"), ("n", None)], 9)
    (record,) = SinkConversion(plugins(), rules, reportable=False).convert([message])
    assert type(record) is SinkRecord
    assert (record.topic, record.partition, record.offset, record.key, record.value) == ("t", 3, 7, "k", "a")
    assert (record.timestamp, record.timestamp_type) == (9, 0)
    assert [(header.key, header.value) for header in record.headers] == [("h", "x"), ("n", None)]
    assert (record.original_topic, record.original_partition, record.original_offset) == ("t", 3, 7)


def test_a_bad_message_is_left_out_of_its_batch() -> None:
    rules, reports = tolerance()
    batch = [*messages(["a"]), Record("t", b"\xff", None, 0, 1), *messages(["b"], first=2)]
    records = SinkConversion(plugins(), rules, reportable=False).convert(batch)
    assert [record.value for record in records] == ["a", "b"]
    assert [failure.record for failure in reports] == [batch[1]]


@pytest.mark.parametrize("steps", [(), (Step("Rename", Rename(), None, False),)])
def test_a_record_that_may_be_reported_knows_its_message(steps: tuple[Step, ...]) -> None:
    rules, _ = tolerance()
    batch = messages(["a"])
    (record,) = SinkConversion(plugins(*steps), rules, reportable=True).convert(batch)
    assert isinstance(record, ReportableRecord)
    assert record.message is batch[0]
    assert record.original_topic == "t"
