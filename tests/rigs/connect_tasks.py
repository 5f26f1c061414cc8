"""Stand-ins for the worker and for librdkafka, for tests of the loops of tasks in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.tasks.channel import WorkerError
from kcli.connect.tasks.spec import ErrorSpec, PluginSpec, SinkSpec, SourceSpec, TaskSpec
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.objects import ClientError, Delivered, Headers, Message


@dataclass
class WorkerChannel:
    """Answers requests from `answers`, and remembers everything. An exception as an answer is raised."""

    answers: dict[str, object] = field(default_factory=dict)
    asked: list[tuple[str, object]] = field(default_factory=list)
    notes: list[tuple[str, object]] = field(default_factory=list)

    def ask(self, method: str, body: object = None, timeout_s: float = 0) -> object:
        self.asked.append((method, body))
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note(self, method: str, body: object = None) -> None:
        self.notes.append((method, body))

    def bodies(self, method: str) -> list[object]:
        return [body for name, body in self.asked if name == method]


class RdError:
    """An error of librdkafka."""

    def __init__(self, code: int, *, fatal: bool = False) -> None:
        self._code, self._fatal = code, fatal

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return f"error {self._code}"

    def fatal(self) -> bool:
        return self._fatal


@dataclass
class Record:
    """A consumed message, or the report of a produced one."""

    _topic: str
    _value: bytes | None
    _key: bytes | None = None
    _partition: int = 0
    _offset: int = 0
    _headers: Headers | None = None
    _timestamp: int = 1_700_000_000_000

    def error(self) -> ClientError | None:
        return None

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def leader_epoch(self) -> int | None:
        return None

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp

    def latency(self) -> float | None:
        return None

    def __len__(self) -> int:
        return len(self._value or b"")


@dataclass
class RdProducer:
    """A producer whose records are acknowledged when the test says so."""

    waiting: deque[tuple[Record, Delivered | None]] = field(default_factory=deque)
    produced: list[Record] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    room: int = 1_000_000
    acknowledges_on_flush: bool = True
    reports_success: bool = False

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        partition: int = -1,
        on_delivery: Delivered | None = None,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        if len(self.waiting) >= self.room:
            raise BufferError
        record = Record(topic, value, key, max(partition, 0), len(self.produced), headers, timestamp)
        self.produced.append(record)
        self.waiting.append((record, on_delivery))
        self.calls.append(f"produce {topic} {(value or b'').decode()}")

    def acknowledge(self, count: int = 1, error: ClientError | None = None) -> None:
        """Acknowledges the oldest records, or refuses them."""
        for _ in range(count):
            record, on_delivery = self.waiting.popleft()
            if on_delivery is not None and (error is not None or self.reports_success):
                on_delivery(error, record)

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float = 0) -> int:
        if self.acknowledges_on_flush:
            self.acknowledge(len(self.waiting))
        return len(self.waiting)

    def purge(self) -> None:
        self.waiting.clear()

    def init_transactions(self, timeout: float) -> None:
        self.calls.append("init")

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def commit_transaction(self) -> None:
        self.acknowledge(len(self.waiting))
        self.calls.append("commit")

    def abort_transaction(self) -> None:
        self.waiting.clear()
        self.calls.append("abort")

    def __len__(self) -> int:
        return len(self.waiting)


class FakeRecordProducer:
    """Stands for `RecordProducer`: gives records to a `RdProducer`."""

    checks_size = False

    def __init__(self, client: RdProducer) -> None:
        self.client = client
        self.refusals: dict[bytes | None, Exception] = {}

    def open(self, *, reports_success: bool) -> None:
        self.client.reports_success = reports_success

    def put(self, record: Sequence[object], on_delivery: Delivered) -> object:
        topic, value, key, partition, timestamp, headers = record
        if value in self.refusals:
            return self.refusals[value]
        self.client.produce(topic, value, key, partition, on_delivery, timestamp=timestamp, headers=headers)
        return None

    def fast_put(self, on_delivery: Delivered) -> Callable[[Sequence[object]], object]:
        return lambda record: self.put(record, on_delivery)


def plugin(python_name: str = "", config: Mapping[str, str] | None = None) -> PluginSpec:
    return PluginSpec(python_name, python_name, None, config or {})


def source_spec(*, errors: ErrorSpec | None = None, boundary: str | None = None) -> TaskSpec:
    converter = plugin("rigs.connect_plugins:PlainText")
    return TaskSpec(
        "c",
        0,
        plugin(),
        converter,
        converter,
        converter,
        errors=errors or ErrorSpec(),
        source=SourceSpec({}, None, boundary, 60_000, "offsets"),
    )


def sink_spec(*, errors: ErrorSpec | None = None, flush_timeout_ms: int = 5000) -> TaskSpec:
    converter = plugin("rigs.connect_plugins:PlainText")
    return TaskSpec(
        "s",
        0,
        plugin(),
        converter,
        converter,
        converter,
        errors=errors or ErrorSpec(),
        sink=SinkSpec({}, ("t",)),
        offset_flush_timeout_ms=flush_timeout_ms,
    )


def refused(java_class: str, message: str) -> WorkerError:
    """An answer of the worker: an error."""
    return WorkerError(java_class, message)


def failing(message: str) -> ConnectException:
    return ConnectException(message)


def messages(values: Iterable[str], topic: str = "t", first: int = 0) -> list[Message]:
    return [Record(topic, value.encode(), None, 0, first + at) for at, value in enumerate(values)]
