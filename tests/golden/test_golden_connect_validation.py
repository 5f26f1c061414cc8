"""The answers of Kafka Connect 4.1 about plugins and configurations, and ours to the same requests."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from kcli.connect.config.checks import CheckReport, CheckRequest
from kcli.connect.config.plugin import Plugin
from kcli.connect.config.plugin_scan import Scan, scan_installed
from kcli.connect.config.plugin_table import PluginTable
from kcli.connect.config.validator import ConfigValidator
from kcli.connect.config.worker import distributed_config
from kcli.connect.errors import RestError
from kcli.connect.herders.herder import Herder
from kcli.connect.herders.views import check_errors
from kcli.connect.rest.plugins import PluginResources
from kcli.http.rest.json_bodies import InvalidBody
from kcli.http.rest.paths import path_segments
from kcli.http.rest.routing import Call, Reply, Router
from rigs.connect_checks import check
from rigs.golden3 import check_differences, recording, steps

STEPS_MIN = 90
"""The steps that the recording has at least."""

Json = Any

KNOWN: dict[str, str] = {
    "create/037": "Java's abstract class Connector is not known here, so that it is an unknown class",
    "validate/018": "MirrorMaker's connectors are not built yet",
    "validate/020": "Java's class String is not known here, so that it is an unknown plugin",
}

_OF_JAVA = ("Cannot ", "Unexpected end-of-input")

_VALIDATED = (
    "Connector configuration is invalid",
    "Connector config {",
    "Failed to find any class",
    "Instantiation error",
)
"""The beginnings of errors that a validation raises before a connector is written."""


class _Herder:
    def __init__(self, validator: ConfigValidator) -> None:
        self.validator = validator


async def run_here(request: CheckRequest) -> CheckReport:
    return check(request)


def validator(story: str, extra: Mapping[str, str]) -> ConfigValidator:
    """The validator of the recorded worker, which had only the plugins of Kafka."""
    worker = distributed_config(
        {
            "bootstrap.servers": "127.0.0.1:9092",
            "group.id": f"g-{story}",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "config.storage.topic": "c",
            "offset.storage.topic": "o",
            "status.storage.topic": "s",
            **{key: text for key, text in extra.items() if "listeners" not in key},
        }
    )
    return ConfigValidator(PluginTable([Scan(kafka_plugins(), ())]), worker, run_here)


def kafka_plugins() -> list[Plugin]:
    return [
        plugin for plugin in scan_installed().plugins if plugin.class_name.startswith("org.apache.kafka.")
    ]


async def answer(step: Json, tested: ConfigValidator) -> tuple[int, Json]:
    """The status and the body of our answer to a recorded request."""
    url = urlsplit(step["path"])
    try:
        if url.path.startswith("/connectors"):
            await write(step, tested)
            return 201, None
        resources = PluginResources(cast("Herder", _Herder(tested)))
        match = Router(resources.routes()).match(path_segments(url.path))
        assert match is not None
        queries = parse_qs(url.query, keep_blank_values=True)
        call = Call(
            match.parameters,
            {name: values[0] for name, values in queries.items()},
            queries,
            {},
            (step.get("request_body") or "").encode(),
            step["method"],
            url.path,
        )
        reply: Reply = await match.routes[step["method"]].handler(call)
        return int(reply.status), reply.body
    except RestError as error:
        return error.status, {"error_code": error.status, "message": str(error)}
    except InvalidBody as error:
        return 500, {"error_code": 500, "message": str(error)}


async def write(step: Json, tested: ConfigValidator) -> None:
    """Validates the configuration of a connector that is created or changed, as a herder does."""
    body = json.loads(step["request_body"], parse_int=str)
    if step["method"] == "POST":
        name, config = body.get("name") or "", body["config"]
    else:
        name, config = step["path"].split("/")[2], body
    check_errors(await tested.validate({**config, "name": name.strip()}))


def is_tested(step: Json) -> bool:
    if step["do"] != "http":
        return False
    method, path, status = step["method"], step["path"], step["response"]["status"]
    if path.startswith("/connector-plugins"):
        return (method in ("GET", "PUT") and status in (200, 400, 500)) or step["id"].startswith("validate/")
    message = (step["response"].get("body") or {}) if status == 400 else {}
    return (
        path.split("?")[0].startswith("/connectors")
        and method in ("POST", "PUT")
        and str(message.get("message", "")).startswith(_VALIDATED)
    )


def is_of_java(body: Json) -> bool:
    """Whether an answer has the text of a library of Java. Then only the status counts."""
    return isinstance(body, dict) and str(body.get("message", "")).startswith(_OF_JAVA)


def comparable(status: int, body: Json) -> Json:
    """An answer without documentation and without places of files."""
    text = json.dumps(body, sort_keys=True)
    text = re.sub(r'"documentation": "(?:[^"\\]|\\.)+"', '"documentation": "{DOC}"', text)
    text = text.replace("file:{KAFKA}/libs/connect-file-4.1.0.jar", "classpath")
    return status, json.loads(text)


def differences() -> Iterator[tuple[str, str]]:
    """The steps whose answer is another one, and how it differs."""
    validators = {
        line["story"]: validator(line["story"], line["worker_config_extra"])
        for line in steps(recording("connect/rest-stories.jsonl"))
    }
    count = 0
    for step in steps(recording("connect/rest.jsonl")):
        if not is_tested(step):
            continue
        count += 1
        status, body = asyncio.run(answer(step, validators[step["id"].partition("/")[0]]))
        recorded = step["response"]
        if is_of_java(recorded.get("body")):
            body = recorded["body"]
        expected = comparable(recorded["status"], recorded.get("body"))
        actual = comparable(status, body)
        if actual != expected:
            yield step["id"], difference(expected, actual)
    assert count >= STEPS_MIN


def difference(expected: Json, actual: Json) -> str:
    """The first rows that differ, because an answer may have 40 of them."""
    left, right = json.dumps(expected, indent=1).splitlines(), json.dumps(actual, indent=1).splitlines()
    lines = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]][:3]
    return f"{len(left)} and {len(right)} lines; {lines}"


def test_answers_about_plugins_and_configurations_equal_those_of_kafka() -> None:
    check_differences(dict(differences()), KNOWN)


def test_answers_are_plain_data() -> None:
    infos = asyncio.run(validator("x", {}).validate({"connector.class": "FileStreamSource", "name": "a"}))
    assert json.loads(json.dumps(dataclasses.asdict(infos)))["error_count"] == infos.error_count > 0
