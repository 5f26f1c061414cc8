"""`kcli configs`, from words to bytes, against a scripted cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import Done, Kcli, ScriptedCluster


@pytest.mark.parametrize("words", ["", "--topic t", "--entity-type things"])
def test_a_server_must_be_named_before_an_entity(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["configs", "--describe", *words.split()]) == 1
    assert capsys.readouterr().err == (
        "Either --bootstrap-server or --bootstrap-controller must be specified.\n"
    )


def test_describe_prints_dynamic_configs_with_synonyms_or_all_configs(kcli: Kcli) -> None:
    assert kcli("configs", "--describe", "--topic", "t").out == (
        "Dynamic configs for topic t are:\n"
        "  password=null sensitive=true synonyms={}\n"
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5, "
        "DEFAULT_CONFIG:log.retention.ms=7}\n"
    )
    every = kcli("configs", "--describe", "--entity-type", "topics", "--all").out.splitlines()
    assert every[0] == "All configs for topic t are:"
    assert every[1] == "  min.insync.replicas=2 sensitive=false synonyms={}"
    assert "All configs for topic u are:" in every
    assert kcli("configs", "--describe", "--topic", "nope").out == (
        "The topic 'nope' doesn't exist and doesn't have dynamic config.\n"
    )
    assert kcli("configs", "--describe", "--entity-type", "brokers").out == (
        "Dynamic configs for broker 1 are:\nDefault configs for brokers in the cluster are:\n"
    )


def test_alter_sends_all_changes_in_one_request_and_a_dry_run_only_validates(
    kcli: Kcli, cluster: ScriptedCluster
) -> None:
    words = ("--add-config", "cleanup.policy=[compact,delete],a=", "--delete-config", "retention.ms")
    done = kcli("configs", "--alter", "--topic", "t", *words)
    assert done == Done(0, "Completed updating config for topic t.\n", "")
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [(op.name, op.config_operation, op.value) for op in request.resources[0].configs]
    assert changes == [("cleanup.policy", 0, "compact,delete"), ("a", 0, ""), ("retention.ms", 1, "")]
    done = kcli("configs", "--alter", "--broker-defaults", "--add-config", "a=1", "--dry-run")
    assert done.out == "Would complete updating default config for brokers in the cluster.\n"
    assert cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)[1].validate_only


def test_lists_may_end_in_a_comma_and_come_in_parts(kcli: Kcli, cluster: ScriptedCluster) -> None:
    words = (
        "--add-config",
        "flush.ms=5,",
        "--delete-config",
        "retention.ms,",
        "--delete-config",
        "retention.ms",
    )
    assert kcli("configs", "--alter", "--topic", "t", *words).code == 0
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [(op.name, op.config_operation) for op in request.resources[0].configs]
    assert changes == [("flush.ms", 0), ("retention.ms", 1), ("retention.ms", 1)]


def test_alter_reads_configs_from_a_file(kcli: Kcli, cluster: ScriptedCluster, tmp_path: Path) -> None:
    (tmp_path / "add.properties").write_text("# comment\nflush.ms=2222\n")
    kcli("configs", "--alter", "--topic", "t", "--add-config-file", str(tmp_path / "add.properties"))
    (request,) = cluster.server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert [(op.name, op.value) for op in request.resources[0].configs] == [("flush.ms", "2222")]


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--describe",), "At least one entity type must be specified"),
        (
            ("--describe", "--entity-type", "things"),
            (
                "Invalid entity type things, the entity type must be one of topics, clients, users, brokers, ips, "
                "client-metrics, groups, broker-loggers with a --bootstrap-server or --bootstrap-controller argument"
            ),
        ),
        (
            ("--describe", "--entity-type", "users", "--entity-type", "topics"),
            "Only 'users' and 'clients' entity types may be specified together",
        ),
        (
            ("--describe", "--topic", "t", "--entity-type", "topics"),
            "Duplicate entity type(s) specified: topics",
        ),
        (
            ("--describe", "--broker", "abc"),
            "The entity name for brokers must be a valid integer broker id, but it is: abc",
        ),
        (
            ("--alter", "--topic", "t"),
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter",
        ),
        (
            ("--alter", "--entity-type", "brokers", "--add-config", "a=1"),
            "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips",
        ),
        (("--alter", "--topic", "t", "--delete-config", "b,c"), "Invalid config(s): b,c"),
        (("--alter", "--topic", "t", "--add-config", "a b=1"), "Invalid character found for config key: a b"),
        (
            ("--alter", "--topic", "t", "--add-config", "a"),
            (
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            ),
        ),
        (("--describe", "--topic", ""), "Topic name is invalid: the empty string is not allowed"),
        (("--describe", "--entity-name"), "Option entity-name requires an argument"),
    ],
)
def test_invalid_options_are_refused_in_kafkas_words(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code = run(["configs", "--bootstrap-server", cluster.server.address, *words])
    assert (code, capsys.readouterr().err) == (1, message + "\n")


def test_the_error_of_the_broker_is_printed(kcli: Kcli) -> None:
    done = kcli("configs", "--alter", "--topic", "t", "--add-config", "bad=1")
    assert done.code == 1
    first, second = done.err.splitlines()
    assert first.startswith(
        "Error while executing config command with args '--alter --topic t --add-config bad=1"
    )
    assert second.endswith("InvalidConfigurationException: Unknown topic config name: bad")


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ("ssl.truststore.password=hush", "ssl.truststore.password=***"),
        (
            "bad=1,listener.name.x.plain.sasl.jaas.config=hush",
            "bad=1,listener.name.x.plain.sasl.jaas.config=***",
        ),
        ("kcli.trace.endpoint=http://u:hush@h:1", "kcli.trace.endpoint=http://***@h:1"),
        ("token=[a,http://u:hush@h:1]", "token=***"),
    ],
)
def test_no_output_repeats_a_secret(kcli: Kcli, config: str, shown: str) -> None:
    failed = kcli("configs", "--alter", "--topic", "t", "--add-config", f"bad=1,{config}")
    assert f"--add-config bad=1,{shown}" in failed.err and "hush" not in failed.err + failed.out
    done = kcli(
        "configs",
        "--alter",
        "--topic",
        "t",
        "--add-config",
        config.removeprefix("bad=1,"),
        "--output",
        "json",
    )
    assert done.code == 0 and "***" in done.out and "hush" not in done.out + done.err
