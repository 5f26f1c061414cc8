"""top: rates, lag and order from two samples by hand, the tables, and which part of them fits a screen."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from kcli.cli.main import run
from kcli.cli.tools.top.command import Display, TopOptions
from kcli.cli.tools.top.rows import rows_of
from kcli.cli.tools.top.sample import NOT_SET, BrokerSample, GroupSample, Partition, Sample, endpoint_address
from kcli.cli.tools.top.view import count_text, screen, seconds_text, tables, text_lines
from kcli.client.admin.groups import GroupListing
from kcli.client.client import Node
from kcli.errors import ErrorCode, error_for
from kcli.http.broker_metrics import BeanValues
from kcli.model.addresses import Address
from kcli.model.amounts import bytes_text

NODE = Node(1, "k1", 9092)


def group(name: str, committed: Any, **more: Any) -> GroupSample:
    listing = GroupListing(group_id=name, type="Classic", protocol="consumer", state="Stable")
    return GroupSample(listing, committed, **more)


def traffic(topic: str, name: str, count: float) -> BeanValues:
    properties = {"type": "BrokerTopicMetrics", "name": name, "topic": topic}
    return BeanValues("", properties, {"Count": count})


def app_info(start: int) -> BeanValues:
    return BeanValues("", {"type": "app-info"}, {"start-time-ms": start, "version": "4.1.0"})


def sample(at: float, ends: dict[tuple[str, int], int], **more: Any) -> Sample:
    values: dict[str, Any] = {
        "at": at,
        "time_ms": int(at * 1000),
        "cluster_id": "c",
        "controller": 1,
        "partitions": {key: Partition(1, (1,), (1,)) for key in ends},
        "ends": ends,
        "groups": [],
        "brokers": [],
        "errors": [],
        **more,
    }
    return Sample(**values)


A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def test_records_a_second_come_from_offsets() -> None:
    before, now = sample(10, {A0: 0, A1: 5, B0: 7}), sample(12, {A0: 100, A1: 5, B0: 17})
    topics = rows_of(before, now, "messages").topics
    assert [(row.topic, row.messages_in, row.records, row.bytes_in) for row in topics] == [
        ("a", 50.0, 105, None),
        ("b", 5.0, 17, None),
    ]


def test_a_first_look_has_no_rates() -> None:
    now = sample(10, {A0: 100}, groups=[group("g", {A0: 60})])
    rows = rows_of(now, now, "messages")
    assert (rows.topics[0].messages_in, rows.groups[0].consumed, rows.groups[0].lag) == (None, None, 40)


def test_bytes_come_from_brokers_that_were_there_before() -> None:
    def brokers(start: int, count: float) -> list[BrokerSample]:
        beans = (traffic("a", "BytesInPerSec", count), app_info(start))
        return [BrokerSample(NODE, beans=beans)]

    before = sample(0, {A0: 0, B0: 0}, brokers=brokers(1, 1000))
    now = sample(2, {A0: 0, B0: 0}, brokers=brokers(1, 5000))
    rates = {row.topic: row.bytes_in for row in rows_of(before, now, "in").topics}
    assert rates == {"a": 2000.0, "b": 0.0}
    restarted = sample(2, {A0: 0, B0: 0}, brokers=brokers(2, 5000))
    assert {row.bytes_in for row in rows_of(before, restarted, "in").topics} == {0.0}


def test_lag_is_that_of_all_partitions_and_of_the_oldest_record() -> None:
    committed = {A0: 40, A1: 10, B0: 7}
    now = sample(10, {A0: 50, A1: 10, B0: 9}, groups=[group("g", committed, ages={A0: 3.5, B0: 70.0})])
    before = sample(5, {}, groups=[group("g", {A0: 20, A1: 10})])
    (row,) = rows_of(before, now, "lag").groups
    assert (row.lag, row.lag_seconds, row.consumed, row.error) == (12, 70.0, 4.0, "")


def test_a_group_that_has_read_everything_has_no_lag() -> None:
    (row,) = rows_of(sample(0, {}), sample(1, {A0: 5}, groups=[group("g", {A0: 5})]), "lag").groups
    assert (row.lag, row.lag_seconds) == (0, 0.0)


def test_one_partition_without_a_leader_sinks_nothing() -> None:
    partitions = {A0: Partition(-1, (1,), (1,)), A1: Partition(1, (1, 2), (1,)), B0: Partition(1, (1,), (1,))}
    ages = {B0: 2.0, A1: error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    groups = [group("g", {A0: 1, A1: 0, B0: 1}, ages=ages), group("h", {}, error="no coordinator")]
    rows = rows_of(
        sample(0, {A1: 0, B0: 0}), sample(1, {A1: 9, B0: 3}, partitions=partitions, groups=groups), "name"
    )
    assert [(row.partition, row.problem, row.leader) for row in rows.problems] == [
        (0, "no leader", None),
        (1, "under-replicated", 1),
    ]
    assert [(row.topic, row.messages_in) for row in rows.topics] == [("a", 9.0), ("b", 3.0)]
    assert [(row.group, row.lag, row.lag_seconds, row.error) for row in rows.groups] == [
        ("g", 11, 2.0, "no end offset for 1 partitions"),
        ("h", None, None, "no coordinator"),
    ]


@pytest.mark.parametrize(
    ("sort", "order"), [("messages", "ba"), ("name", "ab"), ("records", "ab"), ("lag", "ba")]
)
def test_the_largest_is_first(sort: str, order: str) -> None:
    before, now = sample(0, {A0: 500, B0: 0}), sample(1, {A0: 500, B0: 9})
    assert "".join(row.topic for row in rows_of(before, now, sort).topics) == order


def test_groups_by_lag_those_unknown_last() -> None:
    groups = [group("few", {A0: 8}), group("none", {}), group("many", {A0: 1})]
    now = sample(1, {A0: 9}, groups=groups)
    assert [row.group for row in rows_of(now, now, "lag").groups] == ["many", "few", "none"]
    assert [row.group for row in rows_of(now, now, "name").groups] == ["few", "many", "none"]


@pytest.mark.parametrize(
    ("listener", "host", "found"),
    [
        (":9999", "k1", Address("k1", 9999)),
        ("0.0.0.0:9999", "k1", Address("k1", 9999)),
        ("10.1.2.3:9999", "k1", Address("10.1.2.3", 9999)),
        ("[::1]:9999", "localhost", Address("::1", 9999)),
        ("127.0.0.1:9999", "127.0.0.1", Address("127.0.0.1", 9999)),
    ],
)
def test_where_a_broker_s_metrics_are(listener: str, host: str, found: Address) -> None:
    assert endpoint_address(listener, host) == found


def test_another_machine_s_loopback_is_not_ours() -> None:
    assert "its own machine only" in str(endpoint_address("127.0.0.1:9999", "k1"))
    assert "name it with --metrics" in str(endpoint_address("127.0.0.1:0", "127.0.0.1"))
    assert "kcli.metrics.listener" in NOT_SET


def shown(width: int, height: int, topics: int = 40) -> list[str]:
    from rich.console import Console

    ends = {(f"topic-{number:02d}", 0): 5 for number in range(topics)}
    groups = [group("grüppe\x1b[2J", {("topic-00", 0): 2}), *(group(f"g{n}", {}) for n in range(30))]
    partitions = {key: Partition(1, (1,), (1,)) for key in ends} | {("sick", 0): Partition(-1, (1,), ())}
    now = sample(1, ends, groups=groups, partitions=partitions, brokers=[BrokerSample(NODE, "off")])
    drawn = tables(rows_of(now, now, "name"), now.time_ms)
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=False)
    console.print(screen(drawn, head="head", foot="foot", errors=["one error"], width=width, height=height))
    return file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(200, 60), (120, 30), (80, 24), (40, 12), (20, 8), (10, 4)])
def test_the_picture_fits_every_terminal(width: int, height: int) -> None:
    lines = shown(width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert (lines[0].strip(), lines[1][:3], lines[-1].strip()) == ("head", "one", "foot")


def test_partitions_in_trouble_are_shown_first_and_hidden_rows_are_counted() -> None:
    lines = shown(120, 30)
    assert lines[2].startswith("PARTITIONS IN TROUBLE (1)")
    assert any(line.startswith("TOPICS (41, ") and "more)" in line for line in lines)
    assert any(line.startswith("GROUPS (31, ") for line in lines)
    assert any(line.startswith("BROKERS (1)") for line in lines)
    assert not any("\x1b" in line for line in lines), "a group's name moves no cursor"


def test_lines_of_text_stand_in_columns() -> None:
    now = sample(1, {A0: 12_345, B0: 1})
    topics = tables(rows_of(now, now, "name"), 0)[1]
    assert text_lines(topics) == [
        "TOPIC  PARTITIONS  MSG/S  IN/S  OUT/S    END",
        "a               1      -     -      -  12.3k",
        "b               1      -     -      -      1",
    ]


def test_numbers_are_short() -> None:
    assert [count_text(value) for value in (None, 0, 0.25, 12, 9999, 12_345, 3.4e6, 5e9)] == [
        *("-", "0", "0.2", "12", "9999", "12.3k", "3.4M", "5.0G")
    ]
    assert [bytes_text(value) for value in (None, 0, 999, 1500, 2.5e6)] == [
        "-",
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
    ]
    assert [seconds_text(value) for value in (None, 0.0, 1.25, 61.0, 7260.0, 90_000.0)] == [
        *("-", "0 s", "1.2 s", "1m01s", "2h01m", "1d01h")
    ]


def test_invalid_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    server = ["top", "--bootstrap-server", "localhost:1"]
    assert run([*server, "--interval", "0"]) == 1
    assert "--interval 0: expected 0.2 to 3600 seconds" in capsys.readouterr().err
    assert run([*server, "--sort", "color"]) == 1
    assert "not one of messages, in, out" in capsys.readouterr().err
    assert run([*server, "--metrics", "nowhere"]) == 1
    assert "--metrics takes host:port,host:port" in capsys.readouterr().err
    assert run(["top", "--once"]) == 1
    assert 'Missing required argument "[bootstrap-server]"' in capsys.readouterr().err


@pytest.mark.parametrize(("age_s", "is_old"), [(1.0, False), (60.0, True)])
def test_old_figures_are_pale_and_have_their_age(
    age_s: float, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    now = sample(1000.0, {("t", 0): 5})
    monkeypatch.setattr("kcli.cli.tools.top.command.time.monotonic", lambda: 1000.0 + age_s)
    display = Display(cast(Any, None), TopOptions(bootstrap_server="h:1"))
    display._before = display._now = now
    console = Console(file=io.StringIO(), width=120, height=30, force_terminal=True)
    with console.capture() as captured:
        console.print(display._picture(console))
    assert ("No new figures since 1m00s" in captured.get()) is is_old
