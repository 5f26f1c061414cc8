"""client-metrics on a real broker: a subscription's life, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Kcli = Callable[..., Done]


@pytest.fixture
def metrics(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Kcli:
    def call(*words: str) -> Done:
        code = run(["client-metrics", "--bootstrap-server", broker.bootstrap, *words])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return call


def test_the_life_of_a_subscription(metrics: Kcli) -> None:
    alter = ("--alter", "--name", "m2", "--interval", "500", "--metrics", "a.b,c", "--match", "client_id=x")
    assert metrics(*alter, "--dry-run").out == "Would alter client metrics config for m2.\n"
    assert metrics("--list").out == "\n"
    assert metrics(*alter) == Done(0, "Altered client metrics config for m2.\n", "")
    assert metrics("--list").out == "m2\n"
    assert metrics("--list", "--output", "json").out == '{"name": "m2"}\n'
    shown = "Client metrics configs for m2 are:\n  interval.ms=500\n  match=client_id=x\n  metrics=a.b,c\n"
    assert metrics("--describe", "--name", "m2").out == shown
    assert metrics("--describe").out == shown
    assert metrics("--alter", "--name", "m2", "--interval", "").code == 0
    row = json.loads(metrics("--describe", "--output", "json").out)
    assert row["configs"]["interval.ms"] == "300000"
    assert metrics("--delete", "--name", "m2").out == "Deleted client metrics config for m2.\n"
    assert metrics("--describe", "--name", "m2").out == (
        "The client metric resource m2 doesn't exist and doesn't have dynamic config.\n"
    )


def test_a_name_may_be_made_up(metrics: Kcli) -> None:
    told = metrics("--alter", "--generate-name", "--interval", "1000").out
    (name,) = metrics("--list").out.splitlines()
    assert told == f"Altered client metrics config for {name}.\n"
    assert metrics("--delete", "--name", name).code == 0


def test_settings_may_come_in_several_options(metrics: Kcli) -> None:
    metrics("--alter", "--name", "m3", "--metrics", "a.b", "--metrics", "c,,d")
    assert "  metrics=a.b,c,d\n" in metrics("--describe", "--name", "m3").out
    metrics("--delete", "--name", "m3")


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--delete --name m --interval 5", '"[delete]" can\'t be used with option "[interval]"'),
        ("--describe --name m --metrics a", '"[describe]" can\'t be used with option "[metrics]"'),
        ("--list --name m", '"[list]" can\'t be used with option "[name]"'),
    ],
)
def test_settings_are_for_alter_only(metrics: Kcli, words: str, option: str) -> None:
    done = metrics(*words.split())
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"Option {option}\n")


def test_the_tool_shows_the_error_of_the_broker(metrics: Kcli) -> None:
    done = metrics("--alter", "--name", "m", "--match", "a=b")
    assert done == Done(
        1, "Error while executing client metrics command : Illegal client matching pattern: a=b\n", ""
    )


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Command must include exactly one action: --alter, --delete, --describe or --list."),
        (
            ("--list", "--describe"),
            "Command must include exactly one action: --alter, --delete, --describe or --list.",
        ),
        (("--alter",), "One of --name or --generate-name must be specified with --alter."),
        (
            ("--alter", "--name", "m", "--generate-name"),
            "One of --name or --generate-name must be specified with --alter.",
        ),
        (("--delete",), "A client metrics resource name must be specified with --delete."),
        (
            ("--alter", "--name", "m", "--interval", "x"),
            "Invalid interval value. Enter an integer, or leave empty to reset.",
        ),
    ],
)
def test_words_that_do_not_go_together(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["client-metrics", "--bootstrap-server", "127.0.0.1:1", *words]) == 1
    assert capsys.readouterr().err.splitlines()[0] == message
