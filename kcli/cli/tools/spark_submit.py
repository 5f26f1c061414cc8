"""spark-submit: runs a built-in job, or any Spark job, with the spark-submit of the PySpark package.

Spark's options are passed to Spark unchanged. Before Spark starts, the options of a built-in job are checked and its
topics are looked up. So the user sees an error immediately, and not ten seconds later.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from kcli.cli.output import Output, warn
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    ConnectingOptions,
    Family,
    HelpRequested,
    Subcommand,
    UsageError,
    options_of,
)
from kcli.cli.syntax.profiles import BOOTSTRAP, Profile, chosen_profile
from kcli.command.examples import Example, help_lines
from kcli.config.properties import dumps
from kcli.errors import KcliError
from kcli.spark.command_line import CommandLine, SubmitError, split_command_line
from kcli.spark.jobs.shared.job import EXIT_STATUS, Job, load_job
from kcli.spark.jobs.shared.options import JobOptions
from kcli.spark.jobs.shared.running import plan_text
from kcli.spark.submit import JOBS, MIN_JAVA, PREPARE, prepare, submit

DESCRIPTION = "Run a job of kcli, or a program of your own, on Spark."

HELP = f"""\
{DESCRIPTION}

Usage: kcli spark-submit [--profile NAME] [SPARK OPTIONS] JOB [JOB OPTIONS]
       kcli spark-submit [SPARK OPTIONS] FILE.py [ARGUMENTS]
       kcli spark-submit prepare

Jobs (kcli spark-submit JOB --help shows the options of a job):
{{jobs}}

Run prepare once on a machine. It stores the Java classes that Spark loads (160 MB in ~/.cache/kcli), so that later
starts are seconds faster.

The command passes Spark options unchanged to the spark-submit of the PySpark package. Examples: --master local[4],
--conf KEY=VALUE, --driver-memory 4g, --properties-file FILE, --version, --verbose. Without --master the job runs on
this machine (local[*]). Spark logs only warnings and errors. --conf spark.log.level=INFO logs more. If a job of kcli
fails, Spark's log is in a file, and the job prints the path of this file. With --verbose or spark.log.level the log
goes to stderr.

--profile NAME reads the servers and client settings of a job from a profile in profiles.toml. See PROFILES in
kcli(1).

In your own programs, spark.read.format("kcli") reads topics like Spark's own Kafka source, and
frame.write.format("kcli") writes to topics. readStream and writeStream have the format kcli too.

The command needs Java {MIN_JAVA} or newer and pip install 'kcli-streaming[spark]'. It returns
Spark's exit code."""


def run(options: CommonOptions, output: Output) -> int:
    finish_on_sigterm()  # files with secrets are deleted at the end
    words = list(options.argv)
    try:
        line = split_command_line(words)
    except SubmitError as error:
        raise CommandError(str(error)) from None
    profile = chosen_profile(options_of(SubmitOptions), line.value("--profile"))
    if profile is not None and line.job not in JOBS and line.value("--profile") is not None:
        raise CommandError(f"--profile is for the jobs of kcli ({', '.join(JOBS)})")
    line = replace(line, spark=line.without("--profile"))
    if {"--help", "-h"} & set(line.spark):
        print("\n".join([help_text(), *help_lines(command.examples, command.exit_status)]))
        return 0
    if line.job is None and "--version" not in line.spark:
        warn(help_text())
        return 1
    try:
        line.check_master()
        if line.job in JOBS:
            return _built_in(load_job(line.job), line, profile)
        if line.job == PREPARE:
            print(f"made {prepare()}: Spark starts from it now")
            return 0
        return submit(line)
    except SubmitError as error:
        raise CommandError(str(error)) from None


def help_text() -> str:
    width = max(map(len, JOBS)) + 2
    return HELP.format(jobs="\n".join(f"  {name:{width}}{text}" for name, text in JOBS.items()))


def with_profile(job: Job[JobOptions], line: CommandLine, profile: Profile, directory: Path) -> CommandLine:
    """Returns the command line with the servers and client settings of the profile.

    Servers or settings in the job's own arguments or its --config take precedence.

    Raises UsageError if the arguments are invalid.
    """
    named = job.named(line.arguments)
    words: list[str] = []
    servers = profile.servers
    if servers is not None and not named & {BOOTSTRAP, "log-dir"}:
        words += [f"--{BOOTSTRAP}", servers]
    if profile.properties and "command-config" not in named:
        file = directory / "client.properties"  # in a directory that only this user may read
        file.write_text(dumps(profile.properties, now=datetime.now(UTC)))
        words += ["--command-config", str(file)]
    return replace(line, arguments=(*words, *line.arguments))


def _built_in(job: Job[JobOptions], line: CommandLine, profile: Profile | None) -> int:
    """Runs a built-in job. The help and the errors of the job have the same form as in all commands."""
    try:
        if profile is None:
            return _checked(job, line)
        with tempfile.TemporaryDirectory(prefix="kcli-profile-") as directory:
            return _checked(job, with_profile(job, line, profile, Path(directory)))
    except HelpRequested:
        print(job.help_text())
        return 0
    except UsageError as error:
        warn(job.complaint(error))
        return 1


def _checked(job: Job[JobOptions], line: CommandLine) -> int:
    """Checks the job's options. For a dry run or a local Spark, also checks the cluster.

    Then runs the job, or prints its plan.
    """
    options = job.parse(line.arguments)
    plan: list[str] = []
    if options.dry_run or line.is_local:
        try:
            plan = job.plan(options)
        except (KcliError, ValueError, OSError) as error:
            raise CommandError(f"{job.name}: {error}") from None
    if not options.dry_run:
        return submit(line, is_planned=line.is_local)
    print(plan_text(plan, options.output))
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions(ConnectingOptions):
    """kcli's own options. Like Spark's options, they come before the name of the job."""

    output: str = "text"
    """Always text, because each job has an option --output of its own. The runner of commands reads this field."""


def _command(name: str) -> Subcommand:
    """Returns the declaration of a job, for the manual pages and the completion."""
    job = load_job(name)
    return Subcommand(
        name=name,
        help=job.description,
        options=job.options,
        exclusive=job.exclusive,
        examples=job.examples,
        exit_status=job.exit_status,
    )


command = Command(
    name="spark-submit",
    description=DESCRIPTION,
    options=SubmitOptions,
    run=run,
    family=Family.RAW,
    subcommands=tuple(_command(name) for name in JOBS),
    sections=(("USAGE", help_text()),),
    examples=(
        Example(
            "Check the options of an export to Parquet, and the topic that it reads:",
            "kcli spark-submit export --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --path exported --dry-run",
        ),
    ),
    exit_status=EXIT_STATUS,
)
