"""The JSON of the REST API (org.apache.kafka.connect.runtime.rest.entities). Fields are in Java's order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kcli.connect.config.infos import ConfigInfos, KeyInfo
from kcli.connect.config.plugin import UNDEFINED_VERSION, Plugin
from kcli.connect.model import ConnectorInfo, ConnectorState, SourceOffsets, Status, TaskId, TaskInfo

Json = dict[str, object]


def connector_info(info: ConnectorInfo) -> Json:
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.type.value,
    }


def task_id(task: TaskId) -> Json:
    return {"connector": task.connector, "task": task.task}


def task_info(info: TaskInfo) -> Json:
    return {"id": task_id(info.id), "config": dict(info.config)}


def connector_state(state: ConnectorState) -> Json:
    return {
        "name": state.name,
        "connector": _status(state.connector),
        "tasks": [task_state(number, status) for number, status in sorted(state.tasks.items())],
        "type": state.type.value,
    }


def task_state(number: int, status: Status) -> Json:
    return {"id": number, **_status(status)}


def _status(status: Status) -> Json:
    """Java leaves out an empty trace. It leaves out a version that was never reported, but shows one that is null."""
    fields: Json = {"state": status.state.value, "worker_id": status.worker_id, "version": status.version}
    return fields | ({"trace": status.trace} if status.trace else {})


def offsets(pairs: SourceOffsets) -> Json:
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}


def plugin(item: Plugin) -> Json:
    """Java leaves out the version of a plugin that has none."""
    version = {} if item.version == UNDEFINED_VERSION else {"version": item.version}
    return {"class": item.class_name, "type": item.kind.value, **version}


def key_info(info: KeyInfo) -> Json:
    return dataclasses.asdict(info)


def config_infos(infos: ConfigInfos) -> Json:
    return {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [
            {
                "definition": None if config.definition is None else key_info(config.definition),
                "value": dataclasses.asdict(config.value),
            }
            for config in infos.configs
        ],
    }


def topics(connector: str, names: Sequence[str]) -> Json:
    return {connector: {"topics": list(names)}}


def logger(level: str, last_modified_ms: int | None) -> Json:
    return {"level": level, "last_modified": last_modified_ms}


def message(text: str) -> Mapping[str, object]:
    return {"message": text}
