"""Profiles: what they add to a command line, what goes before them, and what their errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli import main, running
from kcli.cli.connect import admin
from kcli.cli.syntax import argparse4j, jopt
from kcli.cli.syntax.options import Command, CommandError, options_of
from kcli.cli.syntax.profiles import load_profiles
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.tools import spark_submit
from kcli.cli.tools.console import consumer as console_consumer
from kcli.cli.tools.perf_test import producer as producer_perf_test
from kcli.cli.tools.topics.options import TopicsOptions
from kcli.config.properties import load
from kcli.spark.command_line import split_command_line
from kcli.spark.jobs.shared.job import load_job

PROFILES = """\
# clusters
[local]
bootstrap-server = "127.0.0.1:9092"

[prod]
bootstrap-server = "kafka1:9092,kafka2:9092"
command-config = "prod.properties"

[prod.properties]
request.timeout.ms = 7000
"sasl.password" = "hunter2"

[prod.console-consumer]
max-messages = 5
from-beginning = true
skip-message-on-error = false
property = ["print.key=true", "print.offset=true"]

[prod.cluster]
include-fenced-brokers = true
"""


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("KCLI_PROFILE", raising=False)
    path = tmp_path / "kcli" / "profiles.toml"
    path.parent.mkdir()
    path.write_text(PROFILES)
    (path.parent / "prod.properties").write_text("client.id=from-file\nrequest.timeout.ms=6000\n")
    return path


def _tool(name: str) -> Command:
    return TOOLS[name].load()


def test_a_profile_names_servers_settings_and_defaults(profiles: Path) -> None:
    options = jopt.parse(_tool("console-consumer"), ["--profile", "prod", "--topic", "t"])
    assert isinstance(options, console_consumer.ConsoleConsumerOptions)
    assert options.bootstrap_server == "kafka1:9092,kafka2:9092"
    assert (options.max_messages, options.from_beginning, options.skip_message_on_error) == (5, True, False)
    assert options.property == ("print.key=true", "print.offset=true")
    assert options.has("from-beginning") and not options.has("skip-message-on-error")
    config = console_consumer.configuration(options)
    assert config["client.id"] == "from-file" and config["request.timeout.ms"] == "7000"
    assert "hunter2" not in repr(options)


def test_the_command_line_goes_before_the_profile(profiles: Path, tmp_path: Path) -> None:
    config = tmp_path / "mine.properties"
    config.write_text("request.timeout.ms=1234\n")
    words = [
        "--list",
        "--profile",
        "prod",
        "--bootstrap-server",
        "127.0.0.1:1",
        "--command-config",
        str(config),
    ]
    made = admin(jopt.parse(_tool("topics"), words)).config
    assert [str(server) for server in made.servers] == ["127.0.0.1:1"]
    assert made.request_timeout_ms == 1234
    assert made.client_id == "from-file"
    words = ["--profile", "prod", "--topic", "t", "--max-messages", "1", "--property", "print.key=false"]
    options = jopt.parse(_tool("console-consumer"), words)
    assert isinstance(options, console_consumer.ConsoleConsumerOptions)
    assert (options.max_messages, options.property) == (1, ("print.key=false",))


def test_servers_named_in_properties_go_before_the_profile(profiles: Path) -> None:
    words = [
        "--profile",
        "local",
        "--topic",
        "t",
        "--num-records",
        "1",
        "--throughput",
        "1",
        "--record-size",
        "9",
    ]
    named, _ = argparse4j.parse(
        _tool("producer-perf-test"), [*words, "--producer-props", "bootstrap.servers=h:1", "acks=1"]
    )
    assert isinstance(named, producer_perf_test.ProducerPerfOptions)
    assert producer_perf_test.configuration(named)["bootstrap.servers"] == "h:1"
    silent, _ = argparse4j.parse(_tool("producer-perf-test"), words)
    assert isinstance(silent, producer_perf_test.ProducerPerfOptions)
    assert producer_perf_test.configuration(silent)["bootstrap.servers"] == "127.0.0.1:9092"


def test_tools_with_subcommands(profiles: Path) -> None:
    cluster = _tool("cluster")
    options, sub = argparse4j.parse(cluster, ["list-endpoints", "--profile", "prod"])
    assert sub is not None and sub.name == "list-endpoints"
    assert getattr(options, "bootstrap_server") == "kafka1:9092,kafka2:9092"  # noqa: B009
    assert getattr(options, "include_fenced_brokers") is True  # noqa: B009
    options, _ = argparse4j.parse(cluster, ["cluster-id", "--profile", "local", "-C", "h:9093"])
    assert getattr(options, "bootstrap_server") is None, "what excludes it was given"  # noqa: B009
    for words in (
        ["--profile", "local", "describe", "--status"],
        ["describe", "--status", "--profile", "local"],
    ):
        options, _ = argparse4j.parse(_tool("metadata-quorum"), words)
        assert getattr(options, "bootstrap_server") == "127.0.0.1:9092"  # noqa: B009


def test_the_environment_names_a_profile(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCLI_PROFILE", "local")
    options = jopt.parse(_tool("groups"), ["--list"])
    assert getattr(options, "bootstrap_server") == "127.0.0.1:9092"  # noqa: B009
    options = jopt.parse(_tool("groups"), ["--list", "--profile", "prod"])
    assert getattr(options, "bootstrap_server") == "kafka1:9092,kafka2:9092"  # noqa: B009
    options = jopt.parse(_tool("replica-verification"), ["--profile", "local"])
    assert getattr(options, "broker_list") == "127.0.0.1:9092"  # noqa: B009
    options = jopt.parse(_tool("log-dirs"), ["--describe"])
    assert getattr(options, "broker_list") is None, "there it means ids"  # noqa: B009
    jopt.parse(_tool("dump-log"), ["--files", "x"])


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        ("[a]\nbootstrap-servr = 'h:1'\n", "--list", ":2: a profile has no bootstrap-servr, only bootstrap-server,"),
        ("[a]\nbootstrap-server = 1\n", "--list", ":2: bootstrap-server must be text: host:port,host:port"),
        ("\n[a.topics]\nlist = true\ntopik = 't'\n", "--list", ":4: topics has no option topik. Did you mean topic?"),
        ("[a.topics]\npartitions = 'six'\n", "--list", ":2: partitions is not of type Integer: six"),
        ("[a.topics]\npartitions = [1, 2]\n", "--list", ":2: partitions takes one value, not a list"),
        ("[a.topics]\ntopic = {}\n", "--list", ":2: topic must be text, a number or a list of them"),
        ("[a.topics]\nexclude-internal = 'yes'\n", "--list", ":2: exclude-internal takes no argument"),
        ("[a.topics]\noutput = 'xml'\n", "--list", ":2: output is one of text, json, tsv, not xml"),
        ("[a]\ncommand-config = 'nowhere'\n", "--list", ":1: cannot read"),
        ("[a.properties]\nx.y = 1979-05-27\n", "--list", ":2: y must be text, a number, true or false"),
        ("[a]\n[a\n", "--list", ":2: not TOML:"),
        ("a = 1\n", "--list", ":1: a must be a table: write [a] above its settings"),
        ("[b]\n", "--list", ": there is no profile 'a', only: b."),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(
    profiles: Path, capsys: pytest.CaptureFixture[str], text: str, words: str, complaint: str
) -> None:
    profiles.write_text(text)
    if "command-config" in text:
        complaint = complaint.replace(":1:", ":2:")
    assert running.run_command(_tool("topics"), [words, "--profile", "a", "--bootstrap-server", "h:1"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{profiles}{complaint}"), said.err


def test_a_missing_file_is_reported_with_its_origin(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles.unlink()
    with pytest.raises(CommandError, match=f"--profile prod: there is no {profiles}"):
        jopt.parse(_tool("topics"), ["--list", "--profile", "prod"])
    monkeypatch.setenv("KCLI_PROFILE", "prod")
    with pytest.raises(CommandError, match=f"KCLI_PROFILE prod: there is no {profiles}"):
        jopt.parse(_tool("topics"), ["--list"])


def test_timeout_is_known_only_where_it_does_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(_tool("console-consumer"), ["--topic", "t", "--timeout", "1"]) == 1
    assert "timeout is not a recognized option" in capsys.readouterr().err
    assert running.run_command(_tool("storage"), ["random-uuid", "--timeout", "1"]) == 1
    assert "unrecognized arguments: '--timeout'" in capsys.readouterr().err
    for tool in ("topics", "e2e-latency", "replica-verification"):
        assert jopt.parse(_tool(tool), ["--timeout", "5"]).has("timeout")


def test_every_tool_that_takes_servers_takes_a_profile() -> None:
    for tool in TOOLS.values():
        command = tool.load()
        for declared in (command.options, *(sub.options for sub in command.subcommands)):
            names = {option.name for option in options_of(declared)}
            above = {option.name for option in options_of(command.options)}
            if "bootstrap-server" in names:
                assert "profile" in names | above, tool.name


@pytest.mark.parametrize("key", ["request.timeout.ms", '"request.timeout.ms"'])
def test_an_unusable_client_setting_is_reported_with_its_line(
    profiles: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    profiles.write_text(f"[a]\nbootstrap-server = 'h:1'\n\n[a.properties]\n# seconds?\n{key} = '7s'\n")
    assert running.run_command(_tool("topics"), ["--list", "--profile", "a"]) == 1
    assert capsys.readouterr().err == (
        f"Invalid value 7s for configuration request.timeout.ms: Not a number of type INT ({profiles}:6)\n"
    )


def test_a_typed_option_goes_before_the_profile(profiles: Path) -> None:
    profiles.write_text(
        "[a]\nbootstrap-server = 'h:1'\n[a.properties]\ngroup.id = 'theirs'\nauto.offset.reset = 'latest'\n"
    )
    consumer = _tool("console-consumer")

    def configured(*words: str) -> dict[str, object]:
        options = jopt.parse(consumer, ["--profile", "a", "--topic", "t", *words])
        assert isinstance(options, console_consumer.ConsoleConsumerOptions)
        return console_consumer.configuration(options)

    assert configured()["group.id"] == "theirs"
    assert configured("--group", "mine", "--from-beginning")["group.id"] == "mine"
    assert configured("--from-beginning")["auto.offset.reset"] == "earliest"
    assert str(configured("--partition", "0")["group.id"]).startswith("console-consumer-")
    assert str(configured("--last", "1")["group.id"]).startswith("console-consumer-")


def _job(profiles: Path, tmp_path: Path, *words: str) -> list[str]:
    line = split_command_line(["--master", "local[1]", "export", *words])
    profile = load_profiles().profile("prod")
    return list(spark_submit.with_profile(load_job("export"), line, profile, tmp_path).arguments)


def test_a_job_of_spark_takes_servers_and_settings(profiles: Path, tmp_path: Path) -> None:
    words = _job(profiles, tmp_path, "--topic", "t")
    assert words[:3] == ["--bootstrap-server", "kafka1:9092,kafka2:9092", "--command-config"]
    assert words[4:] == ["--topic", "t"]
    assert dict(load(words[3])) == {
        "client.id": "from-file",
        "request.timeout.ms": "7000",
        "sasl.password": "hunter2",
    }


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (["--bootstrap-server=h:1"], ["--command-config"]),
        (["--log-dir", "/data"], ["--command-config"]),
        (["--command-config", "f"], ["--bootstrap-server"]),
        (["--config", "servers.properties"], ["--command-config"]),
        (["--config", "job.properties"], ["--bootstrap-server"]),
    ],
)
def test_options_of_a_job_take_precedence_over_the_profile(
    profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], added: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("servers.properties").write_text("bootstrap.servers=h:1\n")
    Path("job.properties").write_text("export.command.config=f\ningest.bootstrap.servers=other:1\n")
    job = _job(profiles, tmp_path, *words)
    assert [word for word in job[: -len(words)] if word.startswith("--")] == added
    assert job[-len(words) :] == words


def test_a_profile_is_not_for_other_jobs(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["spark-submit", "--profile", "prod", "mine.py"]) == 1
    assert capsys.readouterr().err.startswith("--profile is for the jobs of kcli (export, ingest, ")
    assert main.run(["spark-submit", "--profile", "none", "export", "--topic", "t"]) == 1
    assert "there is no profile 'none'" in capsys.readouterr().err


def test_a_profile_is_used_until_another_one_is_chosen(
    profiles: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles.write_text("[a]\nbootstrap-server = 'h:1'\n[b]\nbootstrap-server = 'h:2'\n")

    def servers() -> str | None:
        options = jopt.parse(_tool("topics"), ["--list"])
        assert isinstance(options, TopicsOptions)
        return options.bootstrap_server

    assert main.run(["profile", "use", "b"]) == 0
    assert servers() == "h:2"
    capsys.readouterr()
    assert main.run(["profile", "list"]) == 0
    assert capsys.readouterr().out == "  a\n* b\n"
    monkeypatch.setenv("KCLI_PROFILE", "a")
    assert servers() == "h:1"
    monkeypatch.delenv("KCLI_PROFILE")
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-topics.sh")
    assert servers() is None
    monkeypatch.delenv("KCLI_SCRIPT")
    assert main.run(["profile", "use", "c"]) == 1
    assert "there is no profile 'c'" in capsys.readouterr().err
    assert main.run(["profile", "use"]) == 1
    assert main.run(["profile", "forget"]) == 0
    assert servers() is None
