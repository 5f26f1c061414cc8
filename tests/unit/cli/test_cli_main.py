from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kcli import KAFKA_VERSION, VERSION
from kcli.cli import main, running
from kcli.cli.complete import candidates
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    Family,
    OnParseError,
    Subcommand,
    UsageError,
    option,
)
from kcli.cli.syntax.registry import TOOLS
from kcli.errors import TopicExistsException
from rigs.logs import batch_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(CommonOptions):
    fail: str = option("How to fail.", default="", choices=("", "usage", "command", "kafka"))


def _run(options: Sample, output: Any) -> int:
    match options.fail:
        case "usage":
            raise UsageError("wrong use")
        case "command":
            raise CommandError("no luck", exit_code=3)
        case "kafka":
            raise TopicExistsException("Topic 'a' already exists.")
    print("done")
    return 0


JOPT = Command(name="sample", description="A sample.", options=Sample, run=_run)
PLAIN = Command(
    name="sample", description="A sample.", options=Sample, run=_run, on_parse_error=OnParseError.MESSAGE
)
ARGPARSE4J = Command(
    name="sample",
    description="A sample.",
    family=Family.ARGPARSE4J,
    prog="kafka-sample",
    help_exit=0,
    subcommands=(Subcommand(name="go", help="Go.", options=Sample, run=_run),),
)


def test_help_of_the_jopt_family_goes_to_stderr_with_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(JOPT, []) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == "A sample."
    assert "--fail" in said.err


def test_wanted_help_goes_to_stdout_unless_the_shim_of_a_script_was_called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.run_command(JOPT, ["--help"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "A sample." and captured.err == ""
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-sample.sh")
    assert running.run_command(JOPT, ["--help"]) == 1
    as_kafka = capsys.readouterr()
    assert (as_kafka.out, as_kafka.err) == ("", captured.out)


@pytest.mark.usefixtures("kafkas_script")
def test_help_of_the_argparse4j_family_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(ARGPARSE4J, ["--help"]) == 0
    assert "usage: kafka-sample" in capsys.readouterr().out
    assert running.run_command(ARGPARSE4J, []) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "kafka-sample: error: too few arguments"


def test_some_tools_show_their_help_when_called_bare(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-sample.sh")
    bare = replace(ARGPARSE4J, subcommands=(), run=_run, options=Sample, help_exit=1, bare_exit=0)
    assert running.run_command(bare, []) == 0
    assert running.run_command(bare, ["--help"]) == 1
    assert capsys.readouterr().out.count("usage: kafka-sample") == 2


def test_the_version_option_prints_the_version_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(JOPT, ["--version"]) == 0
    assert capsys.readouterr().out == f"{KAFKA_VERSION}\n"


def test_kcli_shows_its_own_version_beside_that_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["version"]):
        assert main.run(words) == 0
        assert capsys.readouterr().out == f"kcli {VERSION} (Apache Kafka {KAFKA_VERSION})\n"


@pytest.mark.parametrize(("tool", "stream"), [("server-start", "out"), ("e2e-latency", "err")])
def test_usage_alone_where_kafkas_script_says_it(
    capsys: pytest.CaptureFixture[str], tool: str, stream: str
) -> None:
    assert main.run([tool]) == 1
    said = capsys.readouterr()
    assert getattr(said, stream).startswith("USAGE: ")
    assert (said.out + said.err).count("\n") == 1


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_one_tool_of_the_other_family_with_a_version(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert main.run(["transactions", flag]) == 0
    assert capsys.readouterr().out == "4.1.0 (Commit:unknown)\n"
    assert main.run(["features", "--version"]) == 1


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("fail", "code", "first", "table"),
    [
        ("usage", 1, "wrong use", True),
        ("command", 3, "no luck", False),
        ("kafka", 1, "Topic 'a' already exists.", False),
    ],
)
def test_failures_become_words_and_codes(
    capsys: pytest.CaptureFixture[str], fail: str, code: int, first: str, table: bool
) -> None:
    assert running.run_command(JOPT, ["--fail", fail]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == first
    assert ("--fail" in said.err) is table


@pytest.mark.usefixtures("kafkas_script")
def test_a_wrong_word_is_answered_with_the_table_or_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(JOPT, ["--fial", "x"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["fial is not a recognized option", "Did you mean --fail?"]
    assert len(lines) > 2
    assert running.run_command(PLAIN, ["--fial", "x"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--timeout", "x"], "Cannot parse argument 'x' of option timeout"),
        (["--topic", "t"], "Found multiple arguments for option topic, but you asked for only one"),
    ],
)
def test_a_late_error_of_joptsimple_is_shown_without_the_table_of_options(
    capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert main.run(["console-producer", "--bootstrap-server", "h:1", "--topic", "t", *words]) == 1
    assert capsys.readouterr().err == f"{complaint}\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("topics --lst", "kcli topics: error: lst is not a recognized option. Did you mean --list?"),
        ("get-offsets --topic a", 'kcli get-offsets: error: Missing required argument "[bootstrap-server]"'),
        ("transactions abort", "kcli transactions: error: argument --topic is required"),
        (
            "consumer-groups --bootstrap-server h:1 --bogusbogus",
            "kcli consumer-groups: error: bogusbogus is not a recognized option",
        ),
        ("dump-log --bogusbogus", "kcli dump-log: error: bogusbogus is not a recognized option"),
    ],
)
def test_an_error_of_the_command_line_is_the_last_line_after_a_short_usage(
    words: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words.split()) == 1
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert (said.out, len(lines)) == ("", 3)
    name = words.split()[0]
    assert lines[0].startswith(f"usage: kcli {name} ") and f"kcli help {name}" in lines[1]
    assert lines[2] == error


@pytest.mark.parametrize(
    "words",
    [
        "topics --bootstrap-server h:1 --list --command-config no/such",
        "console-consumer --bootstrap-server h:1 --topic t --consumer.config no/such",
        "console-producer --bootstrap-server h:1 --topic t --producer.config no/such",
        "dump-log --files no/such",
        "server-start no/such",
        "get-offsets --bootstrap-server h:1 --command-config no/such",
    ],
)
def test_a_missing_file_is_reported_with_words(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words.split()) == 1
    assert "o such file" in capsys.readouterr().err.replace("no/such", "")


def test_a_missing_setting_is_reported_with_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=1\n")
    missing = 'Missing required configuration "process.roles" which has no default value.'
    assert main.run(["server-start", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: {missing}\n"
    assert main.run(["storage", "info", "-c", str(file)]) == 1
    assert capsys.readouterr().err.endswith(f"{missing} ({file})\n")
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-storage.sh")
    assert main.run(["storage", "info", "-c", str(file)]) == 1
    assert capsys.readouterr().err.endswith(f"{missing}\n")


def test_an_unknown_command_is_answered_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["topcs"]) == 2
    assert "topics" in capsys.readouterr().err


def test_kcli_without_a_word_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    main.run([])
    said = capsys.readouterr()
    assert "topics" in said.out + said.err and "get-offsets" in said.out + said.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("words", ["storage random-uuid", "topics --version", "--version", "--help"])
def test_a_full_disk_under_standard_output_is_one_line(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kcli", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Cannot write to standard output: No space left on device\n"


def test_a_reader_that_goes_away_ends_a_dump_in_silence(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"".join(batch_of([b"v" * 50] * 10, base_offset=10 * n) for n in range(2000)))
    dump = subprocess.Popen(
        [sys.executable, "-m", "kcli", "dump-log", "--print-data-log", "--files", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert dump.stdout is not None and dump.stderr is not None
    dump.stdout.readline()
    dump.stdout.close()
    assert dump.stderr.read() == b""
    dump.stderr.close()
    assert dump.wait() == 0


def test_completion_knows_options_values_and_subcommands() -> None:
    topics = TOOLS["topics"].load()
    assert [candidate.value for candidate in candidates(topics, [], "--rep")] == [
        "--replication-factor",
        "--replica-assignment",
    ]
    assert [candidate.value for candidate in candidates(topics, ["--output"], "j")] == ["json"]
    cluster = TOOLS["cluster"].load()
    assert [candidate.value for candidate in candidates(cluster, [], "un")] == ["unregister"]
    assert "--id" in [candidate.value for candidate in candidates(cluster, ["unregister"], "--")]


def test_a_shell_can_ask_for_completions() -> None:
    environment = os.environ | {
        "_KCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "kcli topics --repl",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from kcli.cli.main import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["--replication-factor", "--replica-assignment"]


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = (
        "import sys\n"
        "from kcli.cli import running\n"
        "from kcli.cli.syntax import registry\n"
        "tool = registry.TOOLS['topics']\n"
        "running.run_command = lambda *_: [print('x' * 1000) for _ in range(1000)] and 0\n"
        "sys.exit(running.run_tool(tool, []))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.wait() == 0
    assert child.stderr.read() == b""
    child.stderr.close()


def test_ctrl_c_ends_quietly_with_130() -> None:
    program = (
        "import sys, asyncio\n"
        "from kcli.cli import running\n"
        "from kcli.cli.coroutines import run_coroutine\n"
        "from kcli.cli.syntax import registry\n"
        "async def forever():\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "running.run_command = lambda *_: run_coroutine(forever())\n"
        "sys.exit(running.run_tool(registry.TOOLS['topics'], []))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == b"up\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == running.INTERRUPTED
    assert child.stderr.read() == b""
    child.stdout.close()
    child.stderr.close()


def test_ctrl_c_ends_quietly_before_all_is_imported() -> None:
    program = (
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'kcli.cli.main':\n"
        "            print('up', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from kcli.__main__ import main\n"
        "main()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == -signal.SIGINT
    assert child.stderr.read() == b""
    child.stdout.close()
    child.stderr.close()


def test_a_command_imports_only_what_it_needs() -> None:
    program = (
        "import sys\n"
        "from kcli.cli.main import run\n"
        "code = run(['topics', '--bootstrap-server', '127.0.0.1:1', '--list', '--timeout', '1'])\n"
        "heavy = {'typer', 'rich', 'pydantic', 'confluent_kafka', 'numpy', 'uvloop', 'pyspark', 'aiohttp'}\n"
        "heavy &= sys.modules.keys()\n"
        "assert code == 1 and not heavy, (code, heavy)\n"
        "others = [name for name in sys.modules if name.startswith('kcli.cli.tools.') and 'topics' not in name]\n"
        "assert not others, others\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_every_tool_has_help_for_every_option() -> None:
    from kcli.cli.syntax.options import options_of

    for tool in TOOLS.values():
        command = tool.load()
        assert command.name == tool.name
        declared = [command.options, *(sub.options for sub in command.subcommands)]
        for declaration in declared:
            for option_declared in options_of(declaration):
                assert option_declared.help.endswith((".", ")")), (
                    f"{tool.name} --{option_declared.name}: {option_declared.help!r}"
                )


def test_the_list_of_topics_needs_few_modules() -> None:
    """Each command starts faster if it does not import the calls of other commands, and no code of TLS and SASL."""
    program = (
        "import sys\n"
        "from kcli.cli.main import run\n"
        "run(['topics', '--bootstrap-server', '127.0.0.1:1', '--list', '--timeout', '1'])\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    rooms = ("kcli.client.admin.", "kcli.security.", "kcli.metadata")
    modules = {name for name in done.stdout.splitlines()[-1].split() if name.startswith(rooms)}
    allowed = {"kcli.client.admin.admin", "kcli.client.admin.parts", "kcli.client.admin.topics"}
    allowed |= {"kcli.security.client", "kcli.security.acls", "kcli.security.acls.grants"}
    assert {name for name in modules if not name.startswith("kcli.security.tls")} <= allowed


def test_each_admin_call_is_found_in_its_module() -> None:
    from kcli.client.admin.admin import AdminClient

    calls = [name for name in vars(AdminClient) if not name.startswith("_")]
    assert len(calls) > 40
    for name in calls:
        assert getattr(AdminClient, name).__name__ == name
