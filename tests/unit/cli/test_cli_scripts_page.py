"""docs/scripts.md: every script of Kafka 4.1 is in its table, and what the table says of commands is so."""

from __future__ import annotations

import re
from pathlib import Path

from kcli.cli.shims import RUN_CLASS
from kcli.cli.syntax.options import options_of
from kcli.cli.syntax.registry import TOOLS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "scripts.md"
# The bin/ of Apache Kafka 4.1, without `.sh`.
SCRIPTS = """
    connect-distributed connect-mirror-maker connect-plugin-path connect-standalone kafka-acls
    kafka-broker-api-versions kafka-client-metrics kafka-cluster kafka-configs kafka-console-consumer
    kafka-console-producer kafka-console-share-consumer kafka-consumer-groups kafka-consumer-perf-test
    kafka-delegation-tokens kafka-delete-records kafka-dump-log kafka-e2e-latency kafka-features
    kafka-get-offsets kafka-groups kafka-jmx kafka-leader-election kafka-log-dirs kafka-metadata-quorum
    kafka-metadata-shell kafka-producer-perf-test kafka-reassign-partitions kafka-replica-verification
    kafka-run-class kafka-server-start kafka-server-stop kafka-share-consumer-perf-test kafka-share-groups
    kafka-storage kafka-streams-application-reset kafka-streams-groups kafka-topics kafka-transactions
    kafka-verifiable-consumer kafka-verifiable-producer kafka-verifiable-share-consumer trogdor
"""
BY_SCRIPT = {tool.script: tool for tool in TOOLS.values() if tool.script}


def rows() -> dict[str, tuple[str, str]]:
    """script -> state and words."""
    matches = re.findall(r"^\| ([\w-]+\.sh) \| (.+?) \| (.*?) ?\|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert len(matches) == len({script for script, _, _ in matches}), "no script twice"
    return {script: (state, words) for script, state, words in matches}


def test_the_page_lists_every_script_of_kafka_in_order() -> None:
    assert [script.removesuffix(".sh") for script in rows()] == sorted(SCRIPTS.split())
    assert {state for state, _ in rows().values()} == {"equal", "more", "not yet"}


def test_commands_and_the_table_agree() -> None:
    there = {script for script, (state, _) in rows().items() if state != "not yet"}
    assert there == BY_SCRIPT.keys() | {RUN_CLASS}


def test_each_row_names_its_additions_or_the_reason_of_its_absence() -> None:
    assert all(words for state, words in rows().values() if state != "equal")


def test_options_that_are_named_are_there() -> None:
    for script, (state, words) in rows().items():
        if state == "not yet" or script == RUN_CLASS:
            continue
        command = BY_SCRIPT[script].load()
        declared = [command.options, *(subcommand.options for subcommand in command.subcommands)]
        known = {option.name for options in declared for option in options_of(options)}
        named = set(re.findall(r"`--([\w-]+)", words))
        assert named <= known, script


def test_commands_of_our_own_are_named_too() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`kcli {tool.name}`" in text for tool in TOOLS.values() if not tool.script)


def test_the_readme_lists_each_command_with_its_script() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `kcli ([\w-]+)` \| ([\w-]+\.sh|–) \|", text, re.M)
    assert sorted(listed) == sorted((tool.name, tool.script or "–") for tool in TOOLS.values())
