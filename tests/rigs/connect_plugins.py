"""The plugins with which Kafka Connect was recorded: a counter, a sink that refuses some values, and a transformation
that fails. The recordings name them gold.CounterSource, gold.PickySink and gold.Flaky."""

from __future__ import annotations

import logging
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigDef
from kcli.connectors.interface import (
    Config,
    JobProgress,
    JobTask,
    Offset,
    Partition,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
)
from kcli.connectors.records import ConnectRecord, SinkRecord, SourceRecord
from kcli.connectors.transformation import Transformation
from kcli.formats.connect.converter import Converter, HeaderConverter, SchemaAndValue
from kcli.formats.connect.errors import ConnectException, DataException, RetriableException
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.model.topic_partition import TopicPartition

LOG = logging.getLogger(__name__)
STRING = Schema(SchemaType.STRING)
OPTIONAL_STRING = Schema(SchemaType.STRING, optional=True)


class NullPointerException(Exception):
    java_class = "java.lang.NullPointerException"


class PlainText(Converter, HeaderConverter):
    """Converts texts. Other values are refused."""

    config_def = ConfigDef(())

    def configure(self, config: Mapping[str, str], *, is_key: bool = False) -> None:
        pass

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if value is None or isinstance(value, str):
            return None if value is None else value.encode()
        raise DataException(f"not a text: {value!r}")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_STRING, None if data is None else data.decode())

    def from_connect_header(
        self, topic: str, header: str, schema: Schema | None, value: object
    ) -> bytes | None:
        return self.from_connect(topic, schema, value)

    def to_connect_header(self, topic: str, header: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect(topic, data)

    def close(self) -> None:
        pass


class CounterTask(SourceTask):
    java_class = "gold.CounterSource$CounterTask"

    def start(self, config: Config) -> None:
        self.config = config
        self.partition = {"task": config["task"]}
        offset = self.context.offsets.offset(self.partition)
        self.next = 0 if offset is None else int(str(offset["n"])) + 1
        self.refusals = 2
        items = (item.partition("=") for item in (config.get("boundaries") or "").split(",") if item)
        self.boundaries = {int(n): action for n, _, action in items}

    def poll(self) -> Sequence[SourceRecord] | None:
        time.sleep(int(self.config.get("pause.ms") or "10") / 1000)
        records = []
        for _ in range(int(self.config.get("batch") or "1")):
            if self.next >= int(self.config.get("count") or "10"):
                break
            self._maybe_fail()
            records.append(self._record())
        if not records:
            time.sleep(0.05)
            return None
        return records

    def _maybe_fail(self) -> None:
        if self.config.get("fail.at") == str(self.next):
            raise ConnectException(f"counter fails at {self.next}")
        if self.config.get("retriable.at") == str(self.next) and self.refusals:
            self.refusals -= 1
            raise RetriableException(f"poll not now {self.next}")

    def _record(self) -> SourceRecord:
        task, n = str(self.config["task"]), self.next
        record = SourceRecord(
            self.partition, {"n": n}, str(self.config["topic"]), f"{task}:{n}", STRING, task, STRING
        )
        transaction = self.context.transaction
        action = self.boundaries.get(n)
        if transaction is not None and action is not None:
            call = transaction.commit_transaction if "commit" in action else transaction.abort_transaction
            call(record if "record" in action else None)
        self.next += 1
        return record


class CounterSource(SourceConnector):
    version = "1.0"
    java_class = "gold.CounterSource"
    config_def = ConfigDef(())
    task_class = CounterTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        count = int(self.config.get("tasks") or "0") or max_tasks
        return [{**self.config, "task": str(number)} for number in range(count)]

    def exactly_once_support(self, config: Config) -> bool | None:
        return True

    def can_define_transaction_boundaries(self, config: Config) -> bool:
        return True

    def alter_offsets(self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]) -> bool:
        return True


class PickyTask(SinkTask):
    java_class = "gold.PickySink$PickyTask"

    def start(self, config: Config) -> None:
        self.file = open(str(config["file"]), "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self.refusals = 2

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.file.write(f"open [{', '.join(map(str, partitions))}]\n")

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.file.write(f"close [{', '.join(map(str, partitions))}]\n")

    def stop(self) -> None:
        self.file.write("stop\n")
        self.file.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        values = [str(record.value) for record in records]
        for value in values:
            if "retry" in value and self.refusals:
                self.refusals -= 1
                self.file.write(f"put throws RetriableException at {value}\n")
                raise RetriableException("not now")
        for record, value in zip(records, values, strict=True):
            if "boom" in value:
                raise ConnectException(f"boom at {value}")
            if "errant" in value:
                self._report(record, value)
            else:
                self.file.write(f"{record.topic}-{record.partition}@{record.offset} {value}\n")

    def _report(self, record: SinkRecord, value: str) -> None:
        reporter = self.context.errant_record_reporter
        if reporter is None:
            self.file.write(f"no reporter for {value}\n")
            return
        reporter.report(record, DataException(f"errant value {value}"))
        self.file.write(f"reported {value}\n")


class PickySink(SinkConnector):
    version = "1.0"
    java_class = "gold.PickySink"
    config_def = ConfigDef(())
    task_class = PickyTask


class Flaky(Transformation[ConnectRecord]):
    java_classes = ("gold.Flaky",)
    config_def = ConfigDef(())

    def configure(self, config: Mapping[str, str]) -> None:
        self.times = int(config.get("times", "0"))
        self.attempts: dict[str, int] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        value = str(record.value)
        if "flaky" in value:
            attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
            if attempt <= self.times:
                raise RetriableException(f"flaky value {value} attempt {attempt}")
        if "bad" in value:
            raise DataException(f"bad value {value}")
        if "npe" in value:
            raise NullPointerException(f"npe value {value}")
        return None if "drop" in value else record


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class TroubleTask(SourceTask):
    """Does what `trouble` says, to its own process."""

    def start(self, config: Config) -> None:
        self.trouble = config["trouble"]
        self.file = str(config.get("file"))

    def poll(self) -> Sequence[SourceRecord] | None:
        match self.trouble:
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), 9)
            case "loop":
                while True:
                    pass
            case "memory":
                hoard: list[bytearray] = []
                while True:
                    hoard.append(bytearray(16 * 1024 * 1024))
            case "flood":
                while True:
                    print("")
            case "flood the log":
                while True:
                    LOG.warning("again")
            case "print":
                print("printed by the task\x1b[31m")
                os.write(2, b"written to stderr")
                self.trouble = ""
            case "fork and exit" | "fork and hang":
                child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
                written = pathlib.Path(f"{self.file}.part")
                written.write_text(str(child.pid))
                written.rename(self.file)
                if self.trouble == "fork and exit":
                    os._exit(4)
                while True:
                    time.sleep(1)
            case "system exit":
                sys.exit("the plugin gives up")
            case "interrupt":
                raise KeyboardInterrupt
            case "recursion":
                return self.poll()
            case "no text":
                raise Unprintable
            case "half a character":
                raise ConnectException("cannot read \udcff")
            case "a text":
                return "records"  # type: ignore[return-value]
            case "a number":
                return 7  # type: ignore[return-value]
            case "numbers":
                return [1, 2]
            case "no topic":
                return [SourceRecord({}, {}, None, "v", STRING)]
            case "no partition":
                return [SourceRecord(7, object(), "t", "v", STRING)]
        time.sleep(0.05)
        return None


class TroubleSource(SourceConnector):
    version = "1.0"
    config_def = ConfigDef(())
    task_class = TroubleTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        if self.config.get("trouble") == "configs":
            while True:
                pass
        match self.config.get("configs"):
            case "none":
                return None
            case "a number":
                return [{"n": 5}]
            case "an object":
                return [{"n": object()}]
            case "texts":
                return ["n"]
            case "chosen":
                return [{"user": self.config["user"]}]
            case "exit":
                sys.exit("the connector gives up")
        return super().task_configs(max_tasks)


class MonitorSource(SourceConnector):
    """Works between two calls: asks for other task configurations, and then fails."""

    version = "1.0"
    config_def = ConfigDef(())
    task_class = TroubleTask
    monitors = True

    def start(self, config: Config) -> None:
        self.config = config
        self.calls = 0

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        self.calls += 1
        if self.calls == 1:
            self.context.request_task_reconfiguration()
        else:
            self.context.raise_error(ConnectException("the database is gone"))
        return [{**self.config, "calls": str(self.calls), "offset": str(self.context.offset({"task": "0"}))}]


class ProgramTask(JobTask):
    """Follows a program that has read its topic up to an offset."""

    def start(self, config: Config) -> None:
        self._config = config
        self._has_stopped = False

    def check(self) -> None:
        if self._config.get("trouble"):
            raise ConnectException(self._config["trouble"])

    def progress(self) -> JobProgress:
        topic, offset = self._config["topics"], int(self._config["offset"]) + self._has_stopped
        return JobProgress(topic_offsets={TopicPartition(topic, 0): offset}, topics=[topic])

    def stop(self) -> None:
        self._has_stopped = True


class ProgramSink(SinkConnector):
    """A sink connector whose records another program reads."""

    config_def = ConfigDef(())
    task_class = ProgramTask
