from __future__ import annotations

import pytest

from kcli.connectors.file.connectors import FileStreamSinkConnector, FileStreamSourceConnector
from kcli.connectors.interface import Offset, Partition
from kcli.formats.connect.errors import ConnectException

CONFIG = {"file": "/data/in.txt", "topic": "lines", "tasks.max": "4"}
PARTITION: Partition = {"filename": "/data/in.txt"}


def test_a_source_has_one_task_and_a_sink_many() -> None:
    source, sink = FileStreamSourceConnector(), FileStreamSinkConnector()
    source.start(CONFIG)
    sink.start(CONFIG)
    assert source.task_configs(4) == [CONFIG]
    assert sink.task_configs(4) == [CONFIG] * 4


def test_only_a_file_can_be_read_exactly_once() -> None:
    source = FileStreamSourceConnector()
    assert source.exactly_once_support(CONFIG) is True
    assert source.exactly_once_support({"topic": "lines"}) is False
    assert source.exactly_once_support({"topic": "lines", "file": " "}) is False
    assert not source.can_define_transaction_boundaries(CONFIG)


@pytest.mark.parametrize("offset", [{"position": 0}, {"position": 2**63 - 1}, None])
def test_offsets_that_may_be_set(offset: Offset | None) -> None:
    assert FileStreamSourceConnector().alter_offsets(CONFIG, [(PARTITION, offset)]) is True
    assert FileStreamSinkConnector().alter_offsets(CONFIG, {}) is True


def test_any_partition_may_be_reset() -> None:
    assert FileStreamSourceConnector().alter_offsets(CONFIG, [({"nonsense": 1}, None)])


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (PARTITION, {}, "Offset objects should either be null or contain the key 'position'"),
        (
            PARTITION,
            {"position": "4"},
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            PARTITION,
            {"position": 4.5},
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            PARTITION,
            {"position": True},
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            PARTITION,
            {"position": -4},
            "The value for the 'position' key in the offset should be a non-negative value",
        ),
        (None, {"position": 4}, "Partition objects cannot be null"),
        ({"file": "a"}, {"position": 4}, "Partition objects should contain the key 'filename'"),
    ],
)
def test_offsets_that_are_refused(partition: Partition, offset: Offset, message: str) -> None:
    with pytest.raises(ConnectException) as refused:
        FileStreamSourceConnector().alter_offsets(CONFIG, [(partition, offset)])
    assert str(refused.value) == message


def test_the_standard_input_has_no_offsets() -> None:
    with pytest.raises(ConnectException) as refused:
        FileStreamSourceConnector().alter_offsets({"topic": "lines"}, [(PARTITION, None)])
    assert str(refused.value) == (
        "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
        "input and offsets are not tracked."
    )
