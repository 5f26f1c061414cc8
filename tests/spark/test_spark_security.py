"""The source and the sink on a secured cluster: TLS and a login in the driver and in every task."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.config.properties import editable
from kcli.local_cluster.ports import free_ports
from kcli.security.acls.configured import STANDARD
from kcli.spark.jobs.shared.job import load_job
from kcli.spark.submit import JOBS
from kcli.testing.broker_process import BrokerProcess
from rigs.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
ROWS = [f"row {number}" for number in range(50)]


@pytest.fixture(scope="module")
def logins(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[dict[str, dict[str, str]]]:
    """The options of each login on a broker with ACLs, on which alice may do everything and bob nothing."""
    ports = dict(zip(("SSL", "SASL"), free_ports(2), strict=True))
    broker = BrokerProcess(tmp_path_factory.mktemp("secured"))
    named = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    listeners = f"{broker.properties['listeners']},{named}"
    broker.overrides |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_SSL",
        **certificates.broker_config(),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{_PLAIN} required user_alice="alice-secret" user_bob="bob-secret";',
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS;User:alice;User:CN=alice,OU=dev,O=x,C=DE",
    }

    def sasl(user: str, password: str) -> dict[str, str]:
        module = f'{_PLAIN} required username="{user}" password="{password}";'
        return certificates.client_config(protocol="SASL_SSL") | {
            "bootstrap.servers": f"localhost:{ports['SASL']}",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": module,
        }

    table = {
        "certificate": certificates.client_config(certificates.alice)
        | {"bootstrap.servers": f"localhost:{ports['SSL']}"},
        "password": sasl("alice", "alice-secret"),
        "wrong password": sasl("alice", "wrong-secret"),
        "no rights": sasl("bob", "bob-secret"),
    }
    with broker:
        yield {name: {f"kafka.{key}": text for key, text in login.items()} for name, login in table.items()}


def write(spark: SparkSession, topic: str, options: Mapping[str, str]) -> None:
    frame = spark.createDataFrame([(row,) for row in ROWS], "value string")
    frame.write.format("kcli").options(**options).option("topic", topic).mode("append").save()


@pytest.mark.parametrize("login", ["certificate", "password"])
def test_the_source_reads_the_rows_that_the_sink_wrote(
    spark: SparkSession, logins: dict[str, dict[str, str]], tmp_path: Path, login: str
) -> None:
    options = logins[login]
    write(spark, login, options)
    source = spark.read.format("kcli").options(**options).option("subscribe", login).load()
    rows = source.selectExpr("cast(value as string)").collect()
    assert sorted(row.value for row in rows) == sorted(ROWS)
    # Spark's web page and its event log show the plan of a query and the progress of a stream.
    assert "-secret" not in source._jdf.queryExecution().toString()

    stream = spark.readStream.format("kcli").options(**options).option("subscribe", login)
    copy = stream.option("startingOffsets", "earliest").load().select("value").writeStream
    copy = copy.format("kcli").options(**options).option("topic", f"{login}-copy")
    query = copy.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert "-secret" not in str(query.recentProgress)
    copied = spark.read.format("kcli").options(**options).option("subscribe", f"{login}-copy").load()
    assert copied.count() == len(ROWS)


JOB_WORDS = {
    "ingest": "--topic jobs --path {input} --format json --on-bad-record dead-letter --dead-letter-topic letters",
    "transform": "--sql 'SELECT n FROM jobs' --target-topic made --on-bad-record dead-letter --dead-letter-topic bad",
    "sql": "-e 'SELECT n FROM jobs'",
    "replay": "--topic jobs --target-topic copy --target-bootstrap-server {servers} --target-command-config {config}",
    "profile": "--topic jobs",
    "export": "--topic jobs --path {output}",
}
"""The arguments of each built-in job. The first job writes the records that the other jobs read."""


def test_every_job_passes_its_settings_to_each_connection(
    spark: SparkSession,
    logins: dict[str, dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert JOB_WORDS.keys() == JOBS.keys()
    login = {key.removeprefix("kafka."): value for key, value in logins["password"].items()}
    servers = login.pop("bootstrap.servers")
    monkeypatch.setenv("KCLI_TEST_LOGIN", login["sasl.jaas.config"])
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    login |= {
        "sasl.jaas.config": "${env:KCLI_TEST_LOGIN}",
        "config.providers": "env",
        "config.providers.env.class": provider,
        "ssl.protocol": "TLSv1.3",  # a setting that only Java has
    }
    (tmp_path / "in.json").write_text('{"n": 1}\n{"n": 2}\nnot JSON\n')
    (tmp_path / "client.properties").write_text(editable(login))
    places = {
        "input": tmp_path / "in.json",
        "output": tmp_path / "out",
        "config": tmp_path / "client.properties",
        "servers": servers,
    }
    common = ["--bootstrap-server", servers, "--command-config", str(tmp_path / "client.properties")]
    for name, words in JOB_WORDS.items():
        job = load_job(name)
        options = job.parse([*common, "--progress-interval", "0", *shlex.split(words.format(**places))])
        job.plan(options)
        assert job.run(spark, options).rows == 2, name
    shown = capsys.readouterr()
    assert "alice-secret" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("login", "text"),
    [("wrong password", "Authentication failed: Invalid username or password"), ("no rights", "uthoriz")],
)
def test_a_refusal_ends_the_job_with_its_reason(
    spark: SparkSession, logins: dict[str, dict[str, str]], login: str, text: str
) -> None:
    with pytest.raises(Exception, match=text) as error:
        write(spark, "closed", logins[login])
    assert "-secret" not in str(error.value)
