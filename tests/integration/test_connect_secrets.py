"""Passwords of connectors, values of config providers and logins: no answer and no log of a worker shows them."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path

import pytest

from kcli.runtime.network import SystemNetwork
from kcli.server.beans.exposition.program_endpoint import MetricsServer
from rigs.connect_programs import request, standalone
from rigs.loops import on_a_loop

JDBC = "io.confluent.connect.jdbc.JdbcSourceConnector"
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
FROM_A_FILE, IN_A_REQUEST, OF_ANN, OF_THE_BROKER = (
    "planted-1-from-a-file",
    "planted-2-in-a-request",
    "planted-3-of-ann",
    "planted-4-of-the-broker",
)


@on_a_loop
async def test_no_answer_and_no_log_has_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "secrets.properties").write_text(f"password={FROM_A_FILE}\n")
    (tmp_path / "users.properties").write_text(f"ann={OF_ANN}\n")
    (tmp_path / "jaas.conf").write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required "
        f'file="{tmp_path}/users.properties"; }};\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path}/jaas.conf")
    login = {"Authorization": f"Basic {base64.b64encode(f'ann:{OF_ANN}'.encode()).decode()}"}
    answers: list[bytes] = []
    properties = {
        "rest.extension.classes": BASIC_AUTH,
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "sasl.jaas.config": f'x.PlainLoginModule required username="a" password="{OF_THE_BROKER}";',
    }
    database = {
        "connector.class": JDBC,
        "connection.url": "jdbc:postgresql://127.0.0.1:1/orders",
        "connection.user": "ann",
        "mode": "bulk",
        "table.whitelist": "orders",
        "topic.prefix": "t-",
        "connection.attempts": "1",
        "connection.backoff.ms": "1",
    }
    async with standalone(tmp_path, properties) as it:

        async def ask(method: str, path: str, body: object = None) -> object:
            content = None if body is None else json.dumps(body).encode()
            answer = await it.request(method, path, content, headers=login)
            answers.append(repr(answer.headers).encode() + answer.body)
            return json.loads(answer.body) if answer.body else None

        placeholder = f"${{file:{tmp_path}/secrets.properties:password}}"
        file = {"connector.class": "FileStreamSource", "file": "/x", "topic": "t", "password": placeholder}
        created = await ask("PUT", "/connectors/db/config", file)
        assert created["config"]["password"] == placeholder  # type: ignore[index]
        config = {"name": "db", **database}
        for password in (placeholder, IN_A_REQUEST):
            path = f"/connector-plugins/{JDBC}/config/validate"
            infos = await ask("PUT", path, config | {"connection.password": password})
            values = {info["value"]["name"]: info["value"]["value"] for info in infos["configs"]}  # type: ignore[index]
            assert values["connection.password"] == "[hidden]"
            await ask(
                "PUT", "/connectors/bad/config", config | {"name": "bad", "connection.password": password}
            )
        in_plain_keys = {
            **database, "connection.url": f"jdbc:sqlite:/{placeholder}", "tasks.max": placeholder, "note": placeholder,
        }  # fmt: skip
        infos = await ask("PUT", f"/connector-plugins/{JDBC}/config/validate", in_plain_keys)
        values = {info["value"]["name"]: info["value"] for info in infos["configs"]}  # type: ignore[index]
        assert values["connection.url"]["value"] == f"jdbc:sqlite:/{placeholder}"
        assert placeholder in values["tasks.max"]["errors"][0]
        await ask("PUT", "/connectors/bad/config", in_plain_keys | {"name": "bad"})
        await ask("PUT", f"/connector-plugins/{JDBC}/config/validate", {"a": placeholder})
        await ask("PUT", "/connectors/bad/config", {"name": "bad", "a": placeholder})
        for path in (
            "/connectors?expand=status&expand=info",
            "/connectors/db/tasks",
            "/connectors/db/status",
        ):
            await ask("GET", path)
        await ask("POST", "/connectors/db/restart?includeTasks=true")
        await ask("GET", "/connectors/db/logs")
        await it.request("GET", "/connectors", headers={"Authorization": f"Basic {OF_ANN}"})
        metrics = MetricsServer(it.worker.beans, SystemNetwork(), "127.0.0.1", 0)
        await metrics.start()
        answers += [(await request(metrics.port, "GET", path)).body for path in ("/metrics", "/jmx")]
        await metrics.stop()
    text = b"\n".join(answers).decode() + caplog.text
    for secret in (FROM_A_FILE, IN_A_REQUEST, OF_ANN, OF_THE_BROKER):
        assert secret not in text, text[max(0, text.index(secret) - 200) :][:400]
