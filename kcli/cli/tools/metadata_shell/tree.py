"""The metadata as a tree of directories and files, as kafka-metadata-shell shows it."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, cast
from uuid import UUID

from kcli.command.rows import Json
from kcli.model.uuids import uuid_to_text

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage, TopicImage

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

# A node is a directory, which maps names to nodes, or a file, which is its text.
Node = Mapping[str, "Node"] | str


def metadata_tree(image: MetadataImage, *, version: str) -> Node:
    """Returns the whole tree: /image is the metadata image, and /local describes this program."""
    return {"image": _image(image), "local": {"commitId": "unknown", "version": version}}


def lookup(root: Node, path: str) -> Node | None:
    """Returns the node at an absolute path, or None if it does not exist."""
    node: Node = root
    for name in parts(path):
        if isinstance(node, str) or name not in node:
            return None
        node = node[name]
    return node


def parts(path: str) -> list[str]:
    """Returns the names in an absolute path, with `.` and `..` resolved."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    return names


def absolute(path: str, directory: str) -> str:
    """Returns the absolute path of a path that may be relative to `directory`."""
    whole = path if path.startswith("/") else f"{directory}/{path}"
    return "/" + "/".join(parts(whole))


def matching(root: Node, pattern: str) -> list[str]:
    """Returns the paths that match an absolute pattern (`*`, `?`, `[a-z]` within a name), sorted."""
    nodes: list[tuple[str, Node]] = [("", root)]
    for name in parts(pattern):
        nodes = [
            (f"{path}/{child}", node[child])
            for path, node in nodes
            if not isinstance(node, str)
            for child in sorted(node)
            if fnmatch.fnmatchcase(child, name)
        ]
    return [path or "/" for path, _ in nodes]


def walk(path: str, node: Node) -> Iterator[str]:
    """Yields a path and every path below it."""
    yield path
    if not isinstance(node, str):
        for name in sorted(node):
            yield from walk(f"{path.rstrip('/')}/{name}", node[name])


def _image(image: MetadataImage) -> Node:
    topics = {topic.name: _topic(topic) for topic in image.topics}
    return {
        "acls": {"byId": {uuid_to_text(key): _text(acl) for key, acl in image.acls.items()}},
        "clientQuotas": {
            _entity(entity): {name: repr(value) for name, value in quotas.items()}
            for entity, quotas in image.client_quotas.items()
        },
        "cluster": {
            "brokers": {str(key): _text(broker) for key, broker in image.brokers.items()},
            "controllers": {str(key): _text(controller) for key, controller in image.controllers.items()},
        },
        "configs": _configs(image),
        "delegationToken": {"tokens": {key: _text(token) for key, token in image.delegation_tokens.items()}},
        "features": {name: str(level) for name, level in image.features.items()},
        "producerIds": {"nextProducerId": str(image.next_producer_id)},
        "provenance": _text(
            {"offset": image.offset, "epoch": image.epoch, "lastContainedLogTimeMs": image.timestamp_ms}
        ),
        "scram": _scram(image),
        "topics": {
            "byId": {uuid_to_text(topic.topic_id): topics[topic.name] for topic in image.topics},
            "byName": topics,
        },
    }


def _topic(topic: TopicImage) -> Node:
    return {
        "id": uuid_to_text(topic.topic_id),
        "name": topic.name,
        **{str(number): _text(partition) for number, partition in topic.partitions.items()},
    }


def _configs(image: MetadataImage) -> Node:
    kinds: dict[str, dict[str, Node]] = {}
    for resource, values in image.configs.items():
        kinds.setdefault(resource.type.name, {})[resource.name or "<default>"] = dict(values)
    return kinds


def _scram(image: MetadataImage) -> Node:
    """Returns SCRAM users by mechanism, without salts and keys."""
    mechanisms: dict[str, dict[str, Node]] = {}
    for key, credential in image.scram.items():
        mechanism = SCRAM_MECHANISMS.get(key.mechanism, str(key.mechanism))
        mechanisms.setdefault(mechanism, {})[key.user] = _text(
            {"iterations": credential.iterations, "salt": "[hidden]", "storedKey": "[hidden]"}
        )
    return mechanisms


def _entity(entity: tuple[tuple[str, str | None], ...]) -> str:
    return " ".join(f"{kind}({'<default>' if name is None else name})" for kind, name in entity)


def _text(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> Json:
    """Converts a value to JSON, with field names in Kafka's camelCase."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return cast(Json, value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
