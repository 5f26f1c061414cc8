"""Reads the file of `topics --apply`, which declares topics.

    topics:
      orders:
        partitions: 6
        replication-factor: 1
        configs:
          retention.ms: 86400000
          cleanup.policy: [compact, delete]

If a field is missing in the file, it is not changed, and a new topic gets the broker's default. A setting without a
value is reset to its default. The YAML is read node by node, so that every error has a line number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.cli.syntax.options import CommandError, did_you_mean
from kcli.model.java_text import natural

if TYPE_CHECKING:
    import yaml

PARTITIONS, REPLICATION_FACTOR, CONFIGS = "partitions", "replication-factor", "configs"
FIELDS = (PARTITIONS, REPLICATION_FACTOR, CONFIGS)
LARGEST = {PARTITIONS: 2**31 - 1, REPLICATION_FACTOR: 2**15 - 1}  # a Java int and a Java short
# The largest file that is read. A list of all topics of the largest cluster is far smaller.
MAX_FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """One topic of the file.

    `configs` is None if the file has no configs for the topic. In `configs`, the value None means that the setting is
    reset to its default. `places` has the file and line of each part.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str | None] | None = None
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, part: str = "") -> str:
        """Returns file and line of a field or setting, or of the topic itself, as in `topics.yaml:12`."""
        return self.places.get(part) or self.places[""]


def read_topics(path: str) -> dict[str, DeclaredTopic]:
    """Returns the topics of a file, in their order. Raises CommandError with file and line."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CommandError(f"{path} is larger than {MAX_FILE_BYTES} bytes: not a file of topics")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{path}:{line}: not UTF-8") from None
    return _Reader(path, text).topics()


class _Reader:
    """Reads one file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def topics(self) -> dict[str, DeclaredTopic]:
        import yaml

        try:
            self.loader = yaml.SafeLoader(self.text)
            root = self.loader.get_single_node()
            if root is None:
                raise CommandError(f"{self.path}:1: the file is empty: expected `topics:` with their names")
            top = self._mapping(root, "the file", ("topics",))
            if "topics" not in top:
                raise self._error(root, "topics: is missing")
            return {
                name: self._topic(name, key, node)
                for name, (key, node) in self._entries(top["topics"][1], "topics").items()
            }
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark is not None else 1
            raise CommandError(f"{self.path}:{line}: not YAML: {error.problem or error.context}") from None
        except yaml.YAMLError as error:
            raise CommandError(f"{self.path}:{self._line_of(error)}: not YAML: {_reason(error)}") from None
        except RecursionError:
            raise CommandError(f"{self.path}: not a file of topics: it is nested too deeply") from None

    def _topic(self, name: str, key: yaml.Node, node: yaml.Node) -> DeclaredTopic:
        fields = {} if _is_null(node) else self._mapping(node, f"topic {name}", FIELDS)
        places = {"": self._place(key)} | {part: self._place(at) for part, (at, _) in fields.items()}
        configs: dict[str, str | None] | None = None
        if CONFIGS in fields:
            configs = {}
            entries = self._entries(fields[CONFIGS][1], f"configs of {name}")
            for setting, (at, value) in entries.items():
                configs[setting] = self._setting(setting, at, value)
                places[setting] = self._place(at)
        return DeclaredTopic(
            name=name,
            partitions=self._count(PARTITIONS, fields),
            replication_factor=self._count(REPLICATION_FACTOR, fields),
            configs=configs,
            places=places,
        )

    def _count(self, part: str, fields: Mapping[str, tuple[yaml.Node, yaml.Node]]) -> int | None:
        if part not in fields or _is_null(fields[part][1]):
            return None
        at, node = fields[part]
        text = node.value if isinstance(node.value, str) else ""
        count = natural(text)
        if count is None or not 1 <= count <= LARGEST[part]:
            raise self._error(at, f"{part} must be a whole number from 1 to {LARGEST[part]}")
        return count

    def _setting(self, name: str, at: yaml.Node, node: yaml.Node) -> str | None:
        """Returns the text of a setting. The text is checked like the argument of `topics --create --config`."""
        import yaml

        from kcli.config.definition import ConfigError
        from kcli.config.topic import TOPIC

        if name not in TOPIC:
            raise self._error(
                at, f"Unknown topic config name: {name}. {did_you_mean(name, list(TOPIC))}".strip(" ")
            )
        if _is_null(node):
            return None
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(item, yaml.ScalarNode) for item in items):
            raise self._error(at, f"{name} must be text, a number, true, false or a list of them")
        text = ",".join(item.value for item in items)
        try:
            TOPIC[name].parse(text)
        except ConfigError as error:
            raise self._error(at, str(error)) from None
        return text

    def _mapping(
        self, node: yaml.Node, what: str, known: tuple[str, ...]
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        entries = self._entries(node, what)
        for name, (at, _) in entries.items():
            if name not in known:
                hint = did_you_mean(name, list(known))
                raise self._error(at, f"{what} has no {name}, only {', '.join(known)}. {hint}".strip(" "))
        return entries

    def _entries(self, node: yaml.Node, what: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Returns the nodes of key and value by name. `<<` merges the entries of another mapping."""
        import yaml

        if _is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be a mapping of names to values")
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, f"{what}: a name must be text")
            if key.value in seen:
                raise self._error(key, f"{key.value} appears twice in {what}")
            seen.add(key.value)
        self.loader.flatten_mapping(node)
        return {key.value: (key, value) for key, value in node.value}

    def _place(self, node: yaml.Node) -> str:
        return f"{self.path}:{node.start_mark.line + 1}"

    def _error(self, node: yaml.Node, message: str) -> CommandError:
        return CommandError(f"{self._place(node)}: {message}")

    def _line_of(self, error: yaml.YAMLError) -> int:
        position = getattr(error, "position", 0)
        return self.text.count("\n", 0, position) + 1


def _reason(error: yaml.YAMLError) -> str:
    return str(getattr(error, "reason", None) or error).splitlines()[0]


def _is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"
