"""`kcli cluster`, `log-dirs` and `broker-api-versions`, from words to bytes, against a scripted cluster."""

from __future__ import annotations

import pytest

from kcli.cli.main import run
from rigs.scripted_cluster import Done, Kcli


def test_log_dirs_prints_one_line_of_json(kcli: Kcli) -> None:
    lines = kcli("log-dirs", "--describe", "--topic-list", "t").out.splitlines()
    assert lines[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 1",
    ]
    assert lines[2] == (
        '{"brokers":[{"broker":1,"logDirs":[{"partitions":[],'
        '"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"/data/b"},'
        '{"partitions":[{"partition":"t-0","size":315,"offsetLag":0,"isFuture":false}],"error":null,'
        '"logDir":"/data/a"}]}],"version":1}'
    )
    unknown = kcli("log-dirs", "--describe", "--broker-list", "1,9")
    assert unknown == Done(
        1,
        "",
        "ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 1\n",
    )
    assert kcli("log-dirs", "--describe", "--broker-list", "x").err == 'For input string: "x"\n'


def test_cluster_prints_id_and_endpoints_and_unregisters_brokers(kcli: Kcli) -> None:
    assert kcli("cluster", "cluster-id") == Done(0, "Cluster ID: abc\n", "")
    assert kcli("cluster", "list-endpoints").out == (
        "ID         HOST      PORT       RACK   STATE      ENDPOINT_TYPE  \n"
        "1          127.0.0.1 PORT      rack-a unfenced   broker         \n"
    )
    assert kcli("cluster", "unregister", "--id", "1").out == "Broker 1 is no longer registered.\n"
    failed = kcli("cluster", "unregister", "--id", "77")
    assert failed.code == 1
    assert failed.err == (
        "org.apache.kafka.common.errors.BrokerIdNotRegisteredException: "
        "Broker ID 77 is not currently registered\n"
    )


def test_broker_api_versions_prints_a_range_for_each_api(kcli: Kcli) -> None:
    lines = kcli("broker-api-versions").out.splitlines()
    assert lines[0] == "127.0.0.1:PORT (id: 1 rack: null isFenced: false) -> ("
    assert "\tMetadata(3): 0 to 13 [usable: 13]," in lines
    assert "\tFetch(1): UNSUPPORTED," in lines
    assert lines[-1] == ")" and not lines[-2].endswith(",")


def test_broker_api_versions_fails_without_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["broker-api-versions", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "Request METADATA failed on brokers [127.0.0.1:1 (id: -1 rack: null isFenced: false)]" in (
        capsys.readouterr().err
    )
