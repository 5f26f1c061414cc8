"""Kafka's two command-line syntaxes: what is written is what is read, and no words break a parser."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.syntax import argparse4j, jopt
from kcli.cli.syntax.options import (
    Command,
    CommonOptions,
    Family,
    HelpRequested,
    Kind,
    ParseError,
    VersionRequested,
    flag,
    option,
    options_of,
)
from kcli.cli.syntax.registry import TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(CommonOptions):
    topic: str | None = option("A topic.")
    partitions: int | None = option("How many.", Kind.INTEGER)
    size: int | None = option("How large.", Kind.LONG)
    config: tuple[str, ...] = option("A setting.", repeatable=True)
    list: bool = flag("List.")


JOPT = Command(name="sample", description="d", options=Sample, run=lambda *_: 0)
ARGPARSE4J = Command(
    name="sample", description="d", options=Sample, run=lambda *_: 0, family=Family.ARGPARSE4J, prog="sample"
)

# argparse4j takes no value that looks like an option, unless it is glued on; an empty glued one is read on by jopt.
text = st.text(min_size=1).filter(lambda value: not value.startswith(("-", "@")))
values = st.fixed_dictionaries(
    {},
    optional={
        "topic": text,
        "partitions": st.integers(-(2**31), 2**31 - 1),
        "size": st.integers(-(2**63), 2**63 - 1),
        "config": st.lists(text, min_size=1, max_size=3).map(tuple),
        "list": st.just(True),
    },
)


def written(chosen: dict[str, object], glued: list[bool]) -> list[str]:
    argv: list[str] = []
    pick = iter(glued)
    for name, value in chosen.items():
        if value is True:
            argv.append(f"--{name}")
            continue
        for each in value if isinstance(value, tuple) else (value,):
            argv += [f"--{name}={each}"] if next(pick) else [f"--{name}", str(each)]
    return argv


@given(values.filter(bool), st.lists(st.booleans(), min_size=10, max_size=10))
def test_both_parsers_read_the_options_that_were_written(
    chosen: dict[str, object], glued: list[bool]
) -> None:
    argv = written(chosen, glued)
    for options in (jopt.parse(JOPT, argv), argparse4j.parse(ARGPARSE4J, argv)[0]):
        assert options.given == chosen.keys()
        assert {name: getattr(options, name) for name in chosen} == chosen


def _words() -> st.SearchStrategy[list[str]]:
    names = sorted({f"--{each.name}" for tool in TOOLS.values() for each in options_of(tool.load().options)})
    word = st.one_of(
        st.sampled_from(names),
        st.text(max_size=8),
        st.text(max_size=8).map(lambda each: f"--{each}"),
        st.sampled_from(["-", "--", "-=", "--=", "=", "-1", "-b", "--help=", "describe", "list-endpoints"]),
    )
    return st.lists(word, max_size=6)


@given(st.sampled_from(sorted(TOOLS)), _words())
def test_no_words_break_a_parser(name: str, argv: list[str]) -> None:
    command = TOOLS[name].load()
    if command.family is Family.RAW or any(word.startswith("@") for word in argv):
        return
    try:
        if command.family is Family.JOPT:
            jopt.parse(command, argv)
        else:
            argparse4j.parse(command, argv)
    except (ParseError, HelpRequested, VersionRequested):
        return
