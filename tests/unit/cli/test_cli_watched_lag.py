"""The output of kafka-consumer-groups --describe --watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from kcli.cli.output import Output
from kcli.cli.tools.consumer_groups.describe import (
    OffsetRow,
    _member_columns,
    _member_rows,
    _state_columns,
    _state_row,
    offset_columns,
)
from kcli.cli.tools.consumer_groups.watched import Watched
from kcli.client.admin.groups import GroupDescription, GroupMember
from kcli.client.client import Node
from kcli.model.topic_partition import TopicPartition

ROW = OffsetRow(
    group="g",
    topic="orders",
    partition=3,
    leader_epoch=None,
    current_offset=0,
    log_end_offset=40,
    lag=40,
    lag_seconds=70.0,
    consumer_id="c-2-7f",
    host="/h",
    client_id="c-2\x1b[2J",
    error=None,
)
MEMBER = GroupMember(
    member_id="c-2-7f",
    instance_id=None,
    client_id="c-2\x1b[2J",
    host="/h",
    assignment=(TopicPartition("orders", 3),),
)
GROUP = GroupDescription(
    group_id="g",
    type="Classic",
    state="Stable",
    protocol="consumer",
    assignor="range",
    coordinator=Node(1, "h", 9092),
    members=(MEMBER,),
)


def shown(capsys: pytest.CaptureFixture[str], format: str = "text") -> list[str]:
    """The last output of a group that commits once and then no more."""
    now_ms = 0
    watched = Watched(lambda: now_ms)
    columns = offset_columns(False, timed=True)
    for second in (0, 10, 20, 80, 150):
        now_ms = second * 1000
        row = replace(
            ROW, current_offset=min(second, 10), log_end_offset=40 + second, lag=40 + second - min(second, 10)
        )
        capsys.readouterr()
        watched.show_partitions(Output(format), GROUP, [row], columns)
    return capsys.readouterr().out.splitlines()


def test_the_table_has_the_state_and_a_sentence_follows(capsys: pytest.CaptureFixture[str]) -> None:
    empty, header, row, space, sentence = shown(capsys)
    assert (empty, space) == ("", "")
    names = header.split()
    assert names[names.index("LAG-SECONDS") :][:3] == ["LAG-SECONDS", "CATCH-UP", "STATUS"]
    assert row.split()[6:9] == ["70.0", "-", "STOP"]
    assert sentence == "STOP: member c-2\\x1b[2J on host h has committed nothing for 2 min on orders-3"


def test_json_has_the_fields_of_the_row_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = shown(capsys, "json")
    row = json.loads(line)
    assert (row["topic"], row["lag"], row["status"], row["catch_up_seconds"]) == ("orders", 180, "STOP", None)
    assert row["explanation"].endswith("has committed nothing for 2 min on orders-3")


def test_tsv_has_a_header_for_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    header, row = shown(capsys, "tsv")
    assert header.split("\t")[-3:] == ["status", "catch_up_seconds", "explanation"]
    assert row.split("\t")[-3] == "STOP"


def test_a_state_that_is_not_known_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched(lambda: 0)
    watched.show_partitions(Output(), GROUP, [ROW], offset_columns(False, timed=True))
    _, _, row = capsys.readouterr().out.splitlines()
    assert row.split()[6:9] == ["70.0", "-", "-"]


def test_an_unknown_end_has_no_state(capsys: pytest.CaptureFixture[str]) -> None:
    row = replace(ROW, log_end_offset=None, lag=None, lag_seconds=None)
    Watched(lambda: 0).show_partitions(Output("json"), GROUP, [row], offset_columns(False, timed=True))
    assert json.loads(capsys.readouterr().out)["status"] is None


def watched_twice(
    capsys: pytest.CaptureFixture[str], show: Callable[[Watched, Output, list[OffsetRow]], None], format: str
) -> list[str]:
    """The last output about a member that commits once on each of its partitions, and then on the second one only."""
    now_ms = 0
    watched = Watched(lambda: now_ms)
    for second in (0, 10, 20, 80, 150):
        now_ms = second * 1000
        stopped = replace(ROW, current_offset=min(second, 10), log_end_offset=40 + second, lag=40)
        reads = replace(
            ROW, partition=4, current_offset=second, log_end_offset=second, lag=0, lag_seconds=0.0
        )
        capsys.readouterr()
        show(watched, Output(format), [stopped, reads])
    return capsys.readouterr().out.splitlines()


def show_members(watched: Watched, output: Output, rows: list[OffsetRow]) -> None:
    idle = replace(MEMBER, member_id="idle", client_id="idle", assignment=())
    group = replace(GROUP, members=(MEMBER, idle))
    watched.show_summary(output, group, _member_rows(group), _member_columns(group, False), rows)


def show_state(watched: Watched, output: Output, rows: list[OffsetRow]) -> None:
    watched.show_summary(output, GROUP, [_state_row(GROUP)], _state_columns(False), rows)


SENTENCE = "STOP: member c-2\\x1b[2J on host h has committed nothing for 2 min on orders-3"


def test_members_have_their_lag_and_their_worst_state(capsys: pytest.CaptureFixture[str]) -> None:
    _, header, busy, idle, _, sentence = watched_twice(capsys, show_members, "text")
    assert header.split()[-3:] == ["#PARTITIONS", "LAG", "STATUS"]
    assert busy.split()[-3:] == ["1", "40", "STOP"]
    assert idle.split()[-3:] == ["0", "0", "-"]
    assert sentence == SENTENCE


def test_the_state_of_a_group_has_its_lag_and_its_worst_partition(capsys: pytest.CaptureFixture[str]) -> None:
    _, header, row, _, sentence = watched_twice(capsys, show_state, "text")
    assert header.split()[-4:] == ["STATE", "LAG", "STATUS", "#MEMBERS"]
    assert row.split()[-4:] == ["Stable", "40", "STOP", "1"]
    assert sentence == SENTENCE
    (line,) = watched_twice(capsys, show_state, "json")
    state = json.loads(line)
    assert (state["state"], state["lag"], state["status"]) == ("Stable", 40, "STOP")
    assert SENTENCE.endswith(state["explanation"])
