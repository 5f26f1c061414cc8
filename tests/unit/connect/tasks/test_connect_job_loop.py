"""The loop of a task that follows a program: copies of offsets, errors, pauses and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from kcli.connect.tasks import job
from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.job import Commits, JobLoop
from kcli.connect.tasks.spec import SinkSpec, TaskSpec
from kcli.connectors.interface import Config, JobProgress, JobTask, Offsets
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition
from rigs.connect_tasks import WorkerChannel, failing, sink_spec, source_spec

T0 = TopicPartition("t", 0)


class Program(JobTask):
    """A program that does one step of the test at each look. After the last step, the task stops."""

    def __init__(self, control: Control, *steps: Callable[[], None]) -> None:
        self.control = control
        self.steps = iter(steps)
        self.calls: list[str] = []
        self.done = JobProgress()

    def start(self, config: Config) -> None:
        self.calls.append("start")

    def check(self) -> None:
        next(self.steps, self.control.stop)()

    def progress(self) -> JobProgress:
        return self.done

    def stop(self) -> None:
        self.calls.append("stop")


class Group:
    """Stands for `GroupCommits`."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []
        self.succeeds = True
        self.closed_after_s: float | None = None

    def commit(self, offsets: Offsets) -> None:
        self.commits.append(dict(offsets))

    def turn(self) -> bool:
        return self.succeeds

    def close(self, timeout_s: float) -> None:
        self.closed_after_s = timeout_s


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "CHECK_S", 0.0)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    group = Group()
    monkeypatch.setattr(JobLoop, "_group", lambda self, sink: cast("Commits", group))
    return group


def run(spec: TaskSpec, program: Program, channel: WorkerChannel) -> None:
    loop = JobLoop(
        replace(spec, offset_flush_interval_ms=0), cast("Channel", channel), program.control, program
    )
    loop.start()
    loop.run()


def test_the_offsets_of_a_source_are_stored_when_they_change() -> None:
    control, channel = Control(), WorkerChannel()

    def at(position: int) -> Callable[[], None]:
        def step() -> None:
            program.done = JobProgress([({"source": 0}, {"position": position})], topics=["out"])

        return step

    program = Program(control, at(1), at(1), at(2))
    run(source_spec(), program, channel)
    assert channel.bodies("put_offsets") == [
        [['["c",{"source":0}]', f'{{"position":{position}}}']] for position in (1, 2)
    ]
    assert channel.notes[0] == ("used_topic", {"topic": "out"})
    assert program.calls == ["start", "stop"]


def test_the_offsets_of_topics_are_committed_and_repeated_after_an_error(group: Group) -> None:
    control, channel = Control(), WorkerChannel()

    def progress() -> None:
        program.done = JobProgress(topic_offsets={T0: 5})

    def fail() -> None:
        group.succeeds = False

    def recover() -> None:
        group.succeeds = True

    program = Program(control, progress, fail, recover)
    run(sink_spec(), program, channel)
    assert group.commits == [{T0: 5}, {T0: 5}]
    assert group.closed_after_s == 5.0


def test_the_last_offsets_are_copied_after_the_program_has_stopped(group: Group) -> None:
    program = Program(Control())

    def stop() -> None:
        program.done = JobProgress(topic_offsets={T0: 9})

    program.stop = stop  # its last micro-batch ends while it stops
    run(sink_spec(), program, WorkerChannel())
    assert group.commits == [{T0: 9}]


def test_an_error_of_a_copy_does_not_fail_the_task(caplog: pytest.LogCaptureFixture) -> None:
    channel = WorkerChannel({"put_offsets": failing("the topic is gone")})
    program = Program(Control())
    program.done = JobProgress([({}, {"n": 1})])
    run(source_spec(), program, channel)
    assert len(channel.bodies("put_offsets")) == 2
    assert "Failed to copy the offsets of the program" in caplog.text


def test_an_error_of_the_program_ends_the_loop(group: Group) -> None:
    def fail() -> None:
        raise ConnectException("exit code 1")

    program = Program(Control(), fail)
    program.done = JobProgress(topic_offsets={T0: 2})
    with pytest.raises(ConnectException, match="exit code 1"):
        run(sink_spec(), program, WorkerChannel())
    assert group.commits == [{T0: 2}], "what the program has done is shown"


def test_a_pause_stops_the_program_and_a_resume_starts_it_again() -> None:
    control, channel = Control(), WorkerChannel()
    paused = threading.Event()

    def note(method: str, body: object = None) -> None:
        channel.notes.append((method, body))
        if method == "paused":
            paused.set()

    channel.note = note  # reports the pause to this test
    program = Program(control, lambda: control.handle("pause", None))

    def resume() -> None:
        paused.wait(10)
        assert program.calls == ["start", "stop"]
        control.handle("resume", None)

    thread = threading.Thread(target=resume)
    thread.start()
    run(source_spec(), program, channel)
    thread.join()
    assert program.calls == ["start", "stop", "start", "stop"]
    assert [method for method, _ in channel.notes if method != "metrics"] == ["paused", "resumed"]


def test_a_task_of_an_older_generation_starts_no_program() -> None:
    program = Program(Control())
    with pytest.raises(ConnectException, match="older generation"):
        run(source_spec(boundary="poll"), program, WorkerChannel({"may_start": False}))
    assert program.calls == []


def test_a_program_gets_the_client_settings_of_its_connector(group: Group) -> None:
    program = Program(Control())
    settings = {"bootstrap.servers": "b:1", "group.id": "connect-s"}
    run(replace(sink_spec(), sink=SinkSpec(settings, ("t",))), program, WorkerChannel())
    assert program.context.client == settings
