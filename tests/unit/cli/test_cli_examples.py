"""Every command declares examples and exit codes, and its help and its manual page show them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from kcli.cli import running
from kcli.cli.man import ROOT_EXAMPLES, pages
from kcli.cli.syntax.options import Family, Subcommand, options_of
from kcli.cli.syntax.registry import TOOLS
from kcli.command.examples import Example, help_lines
from kcli.spark.jobs.shared.job import load_job

WIDTH_MAX = 76
"""Four columns less than a terminal has: the help indents examples."""
# Flags that a parser knows without a declaration.
_UNDECLARED = {"--help", "--version"}

tools = pytest.mark.parametrize("name", TOOLS)
JOBS = TOOLS["spark-submit"].load().subcommands


def examples() -> list[tuple[str, Example]]:
    return [(name, example) for name, tool in TOOLS.items() for example in tool.load().examples]


@tools
def test_a_command_without_an_example_is_refused(name: str) -> None:
    command = TOOLS[name].load()
    assert command.examples, f"{name} has no examples: declare one that a reader can copy"
    for example in command.examples:
        assert f"kcli {name}" in example.shell
        assert example.purpose.endswith(":"), "the help shows the lines of the example after it"


@tools
def test_a_command_without_exit_codes_is_refused(name: str) -> None:
    command = TOOLS[name].load()
    codes = [code for code, _ in command.exit_status]
    assert 1 in codes, f"{name} does not say what it exits with if it fails"
    assert codes == sorted(codes)
    assert all(meaning.endswith(".") for _, meaning in command.exit_status)
    for example in command.examples:
        assert example.exit_code in codes


@pytest.mark.parametrize(("name", "example"), examples())
def test_an_example_fits_into_the_help(name: str, example: Example) -> None:
    assert all(len(line) <= WIDTH_MAX for line in example.shell.splitlines())
    assert len(example.purpose) <= WIDTH_MAX


@pytest.mark.parametrize(("name", "example"), examples())
def test_an_example_uses_options_that_its_command_has(name: str, example: Example) -> None:
    for tool, words in _calls(example.shell):
        command = TOOLS[tool].load()
        if command.family is Family.RAW:
            continue
        declarations = [command.options, *(sub.options for sub in command.subcommands)]
        known = {f"--{option.name}" for declaration in declarations for option in options_of(declaration)}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= known | _UNDECLARED


def _calls(shell: str) -> Iterator[tuple[str, list[str]]]:
    """The command lines of kcli in the lines of a shell."""
    joined = shell.replace("\\\n", " ")
    for call in re.finditer(r"\bkcli ([a-z0-9-]+)([^\n|<>)]*)", joined):
        yield call[1], [word.strip('"') for word in shlex.split(call[2].replace('"$(', ""))]


@tools
def test_help_ends_with_examples_and_exit_codes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = TOOLS[name].load()
    running.run_command(command, ["--help"])
    shown = "".join(capsys.readouterr())
    assert shown.endswith("\n".join(help_lines(command.examples, command.exit_status)) + "\n")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_job_of_spark_declares_examples_and_exit_codes(job: Subcommand) -> None:
    assert [code for code, _ in job.exit_status] == [0, 1]
    for example in job.examples:
        assert example.purpose.endswith(":")
        assert all(len(line) <= WIDTH_MAX for line in (example.purpose, *example.shell.splitlines()))
        words = shlex.split(example.shell.replace("\\\n", " "))
        assert words[:3] == ["kcli", "spark-submit", job.name]
        assert load_job(job.name).named(words[3:])  # raises UsageError if an option is unknown


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_help_of_a_job_of_spark_ends_with_them_too(
    job: Subcommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.run_command(TOOLS["spark-submit"].load(), [job.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\nexamples:\n" in shown
    assert shown.endswith("\n".join(help_lines(job.examples, job.exit_status)) + "\n")
    page = pages()[f"kcli-spark-submit-{job.name}.1"]
    assert page.index(".SH EXIT STATUS") < page.index(".SH EXAMPLES") < page.index(".SH SEE ALSO")


def test_the_page_of_kcli_has_an_example() -> None:
    assert "kcli topics \\-\\-bootstrap\\-server localhost:9092 \\-\\-create" in pages()["kcli.1"]
    for example in ROOT_EXAMPLES:
        assert {tool for tool, _ in _calls(example.shell)} <= TOOLS.keys()


def test_usage_after_a_wrong_option_has_no_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run_command(TOOLS["cluster"].load(), ["cluster-id", "--wrong"]) == 1
    assert "examples:" not in "".join(capsys.readouterr())


def test_help_lines_are_examples_then_exit_codes() -> None:
    assert help_lines([Example("List them:", "kcli a \\\n  --list")], [(0, "Done."), (130, "Ended.")]) == [
        "",
        "examples:",
        "  List them:",
        "    kcli a \\",
        "      --list",
        "",
        "exit status:",
        "  0    Done.",
        "  130  Ended.",
    ]
    assert help_lines([], []) == []


def test_a_man_page_has_examples_and_exit_codes() -> None:
    page = pages()["kcli-topics.1"]
    assert ".SH EXAMPLES" in page and "\\-\\-apply topics.yaml" in page
    assert ".B 2\n\\-\\-apply \\-\\-dry\\-run found changes to make." in page
    assert (
        "Our script kafka\\-topics.sh prints the usage on standard error and exits with code 1, like Kafka's."
        in page
    )


def test_the_name_of_apache_kafka_keeps_its_capitals() -> None:
    assert "kcli \\- Apache Kafka's broker" in pages()["kcli.1"]
    assert "kcli\\-jmx \\- print the metrics" in pages()["kcli-jmx.1"]
