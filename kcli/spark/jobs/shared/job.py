"""Declares a job of `kcli spark-submit`: its options, its plan, and the function that runs it.

The command line checks the options of a job and shows its plan before Spark starts. Then `main` parses the same
arguments again in the driver, which may be on another machine.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from kcli.command.examples import Example, ExitStatus, help_lines
from kcli.command.help import WIDTH_COLUMNS, entry, option_entry, usage_line
from kcli.command.options import Exclusive, HelpRequested, Option, ParseError, UsageError, options_of
from kcli.command.reader import Grammar, Reader, Words
from kcli.errors import KcliError
from kcli.spark.jobs.shared.defaults_file import Defaults, load_defaults
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import JobOptions
from kcli.spark.jobs.shared.running import Done, plan_text, run_job
from kcli.spark.submit import PLANNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRAMMAR = Grammar(abbreviations=False, spaced_arguments=True)
"""Options cannot be abbreviated, because a later option could make an abbreviation ambiguous.

An argument with a space may begin with a dash, because SQL may begin with a comment (`--`).
"""

EXIT_STATUS: tuple[ExitStatus, ...] = (
    (0, "The job succeeded, or SIGTERM or Ctrl-C ended a stream after its current micro-batch."),
    (1, "The job failed, its options are wrong, or SIGTERM or Ctrl-C stopped a batch job."),
)

T = TypeVar("T", bound=JobOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[T]):
    """One built-in job. Its options are the fields of the dataclass `options`."""

    name: str
    description: str
    options: type[T]
    check: Callable[[T], T]
    """Checks the parsed options and returns the final options.

    Raises JobError, ValueError or OSError if they contradict each other.
    """
    plan: Callable[[T], list[str]]
    """Returns the plan of the job, line by line. Raises KcliError or ValueError if the job cannot run."""
    run: Callable[[SparkSession, T], Done]
    examples: tuple[Example, ...]
    exit_status: tuple[ExitStatus, ...] = EXIT_STATUS
    exclusive: tuple[Exclusive, ...] = ()
    rows_to_stdout: bool = False
    """Whether the job prints rows to stdout. If so, the summary goes to stderr."""

    @property
    def prog(self) -> str:
        """The program name at the start of error and usage messages."""
        return f"kcli spark-submit {self.name}"

    def known(self) -> list[Option]:
        """Returns the options that the job accepts."""
        return options_of(self.options)

    def parse(self, argv: Sequence[str]) -> T:
        """Parses and checks the options. Raises UsageError if they are wrong, and HelpRequested for --help."""
        typed, defaults = self._read(argv)
        for key in defaults.unknown:
            path = typed.text("config")
            print(f"{self.name}: {path}: {key} is not an option of this job", file=sys.stderr)
        known, reader = self.known(), Reader(GRAMMAR)
        reader.read(Words(list(defaults.words)), known, self.exclusive)
        reader.read(Words(list(argv)), known, self.exclusive)
        reader.refuse_missing(known)
        reader.refuse_empty_groups(self.exclusive, known)
        options = replace(reader.filled(self.options, argv), given=frozenset(typed.given))
        try:
            return self.check(options)
        except (OSError, ValueError, JobError) as error:
            raise UsageError(str(error)) from None

    def named(self, argv: Sequence[str]) -> frozenset[str]:
        """Returns the names of the options that are set on the command line or in its --config file.

        Raises the same errors as `parse`.
        """
        typed, defaults = self._read(argv)
        reader = Reader(GRAMMAR)
        reader.read(Words(list(defaults.words)), self.known(), self.exclusive)
        return frozenset((*typed.given, *reader.given))

    def _read(self, argv: Sequence[str]) -> tuple[Reader, Defaults]:
        """Parses the command line, and loads the defaults of its --config file."""
        known, typed = self.known(), Reader(GRAMMAR)
        typed.read(Words(list(argv)), known, self.exclusive)
        path = typed.text("config")
        if path is None:
            return typed, Defaults()
        # If an option on the command line excludes another option, the file's default for the other option is ignored.
        return typed, load_defaults(path, self.name, known, typed.excluded(self.exclusive))

    def usage(self) -> str:
        """Returns the usage paragraph."""
        return usage_line(f"kcli spark-submit [SPARK OPTIONS] {self.name}", self.known())

    def help_text(self) -> str:
        """Returns usage, description, options, examples and exit codes."""
        lines = [self.usage(), "", *textwrap.wrap(self.description, WIDTH_COLUMNS), "", "options:"]
        lines += entry("-h, --help", "Show this help message and exit.")
        for option in self.known():
            lines += option_entry(option)
        lines += help_lines(self.examples, self.exit_status)
        return "\n".join(lines)

    def complaint(self, error: UsageError) -> str:
        """Returns the message for an invalid command line."""
        hint = f". {error.hint}" if isinstance(error, ParseError) and error.hint else ""
        return "\n".join(
            [
                f"usage: kcli spark-submit [SPARK OPTIONS] {self.name} [OPTIONS]",
                f"       {self.prog} --help shows the options and examples.",
                f"{self.prog}: error: {error}{hint}",
            ]
        )

    def main(self, argv: Sequence[str]) -> int:
        """Parses the options and runs the job in the driver. Returns the exit code."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # rows may have characters that the locale does not have
                stream.reconfigure(errors="replace")
        try:
            options = self.parse(argv)
        except HelpRequested:
            print(self.help_text())
            return 0
        except UsageError as error:
            print(self.complaint(error), file=sys.stderr)
            return 1
        plan: list[str] = []
        if options.dry_run or PLANNED not in os.environ:  # a run makes the same checks as its dry run
            try:
                plan = self.plan(options)
            except (KcliError, ValueError, OSError) as error:
                print(f"{self.name}: {error}", file=sys.stderr)
                return 1
        if options.dry_run:
            print(plan_text(plan, options.output))
            return 0
        summary_to = sys.stderr if self.rows_to_stdout else sys.stdout
        return run_job(self.name, self.run, options, summary_to)


def load_job(name: str) -> Job[JobOptions]:
    """Returns the built-in job `name`."""
    module = f"kcli.spark.jobs.{name}.job"
    job = importlib.import_module(module).JOB
    assert isinstance(job, Job), f"{module}.JOB is not a Job"
    return job
