"""What a worker tells the process of a connector or a task: classes, configurations and limits, all resolved."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.config.plugin import load_class
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.log_text import name


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin: the class name that logs and dead letters show, the Python class, and its configuration."""

    class_name: str
    python_name: str
    path: str | None
    """The entry of sys.path that has the module, or None if the module is installed."""
    config: Mapping[str, str]

    def load(self) -> type[object]:
        """Imports the class. Raises ConnectException."""
        try:
            return load_class(self.python_name, self.path)
        except Exception as error:
            raise ConnectException(f"The class {self.python_name} could not be imported: {error}") from error


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """A transformation, and the predicate that limits it. `negate` turns the predicate round."""

    transformation: PluginSpec
    predicate: PluginSpec | None = None
    negate: bool = False


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """The keys `errors.*`. `tolerance` is "none" or "all"; a retry time-out of -1 means for ever."""

    tolerance: str = "none"
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    log: bool = False
    log_records: bool = False
    dead_letter_topic: str = ""
    dead_letter_replication_factor: int = 3
    dead_letter_headers: bool = False


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A rule for topics that a source task creates (KIP-158). The patterns are Java's regular expressions."""

    name: str
    include: Sequence[str]
    exclude: Sequence[str]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SourceSpec:
    producer: Mapping[str, str]
    """Properties of Java's producer."""
    topic_groups: Sequence[TopicGroup] | None = None
    """None if brokers create topics. The last group is the default."""
    transaction_boundary: str | None = None
    """"poll", "interval" or "connector" with exactly once, else None."""
    transaction_interval_ms: int = 60_000
    offsets_topic: str = ""
    """With exactly once: the topic for offsets, which are in the same transaction as the records."""


@dataclass(frozen=True, slots=True)
class SinkSpec:
    consumer: Mapping[str, str]
    """Properties of Java's consumer."""
    topics: Sequence[str] = ()
    topics_regex: str = ""
    dead_letter_producer: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    connector: str
    task: int
    plugin: PluginSpec
    """The class of the connector, and the configuration of the task."""
    key_converter: PluginSpec
    value_converter: PluginSpec
    header_converter: PluginSpec
    transforms: Sequence[TransformSpec] = ()
    errors: ErrorSpec = ErrorSpec()
    source: SourceSpec | None = None
    sink: SinkSpec | None = None
    is_paused: bool = False
    offset_flush_interval_ms: int = 60_000
    offset_flush_timeout_ms: int = 5_000
    memory_bytes_max: int = 0
    """The most private memory of the process. 0 means no limit."""

    @property
    def id(self) -> str:
        """The name of the task in logs and errors. A user chooses the name of a connector."""
        return f"{name(self.connector)}-{self.task}"


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    connector: str
    plugin: PluginSpec
    """The class of the connector, and its configuration."""
    memory_bytes_max: int = 0


def packed(spec: TaskSpec | ConnectorSpec) -> str:
    """Returns a specification as a text, for a frame to a new process."""
    return base64.b64encode(pickle.dumps(spec)).decode()


def unpacked(text: str) -> TaskSpec | ConnectorSpec:
    """The reverse of `packed`. Only a worker sends such texts, and a task never does."""
    spec = pickle.loads(base64.b64decode(text))
    assert isinstance(spec, TaskSpec | ConnectorSpec)
    return spec
