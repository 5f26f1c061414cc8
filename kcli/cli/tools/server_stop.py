"""kafka-server-stop: asks the servers on this machine to stop, and does not wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Family, Kind, option
from kcli.command.examples import Example
from kcli.model.java_text import natural, parse_int, split_blanks, trim

PROC = "/proc"
SERVER_MODULE = "kcli.server.main"
MISSING_FILE = (
    "Can not find the configuration file in the current directory. Please make sure the kafka stop process and the "
    "start process are called in the same directory."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStopOptions(CommonOptions):
    process_role: str | None = option("Stop only servers with these process.roles.", metavar="role")
    node_id: int | None = option("Stop only the server with this node.id.", Kind.INTEGER, metavar="id")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, the directory in which it was started, and its arguments."""

    pid: int
    directory: str
    words: tuple[str, ...]


def run(options: ServerStopOptions, output: Output) -> int:
    number = _signal(os.environ.get("SIGNAL") or "TERM")
    servers = list(running_servers())
    if not servers:
        output.say("No kafka server to stop")
        return 1
    if options.node_id is not None and options.process_role is not None:
        output.say(
            "When both node-id and process-role are provided, the value for node-id will take precedence"
        )
    if options.node_id is not None or options.process_role is not None:
        servers = [server for server in servers if _matches(server, options)]
        if not servers:
            output.say("No kafka server to stop")
            return 1
    for server in servers:
        _send(server.pid, number)
    if not output.is_text:
        output.rows(servers, lambda server: str(server.pid))
    return 0


def running_servers(proc: str = PROC) -> Iterator[Server]:
    """Yields the servers on this machine in the order of their process ids."""
    for pid, argv in _processes(proc):
        words = server_words(argv)
        if words is not None and pid != os.getpid():
            yield Server(pid, _directory(proc, pid), words)


def server_words(argv: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the arguments of `kcli server-start` or `python -m kcli.server.main`.

    Returns None for another command line.

    `server-start -daemon` starts the server with the second form.
    """
    for at, word in enumerate(argv[:4]):
        following = argv[at + 1] if at + 1 < len(argv) else ""
        if os.path.basename(word) == "kcli" and following == "server-start":
            return tuple(argv[at + 2 :])
        if word == "-m" and following == SERVER_MODULE:
            return tuple(argv[at + 2 :])
        if word == "-m" and following == "kcli" and argv[at + 2 : at + 3] == ["server-start"]:
            return tuple(argv[at + 3 :])
    return None


def _processes(proc: str) -> Iterator[tuple[int, list[str]]]:
    if not os.path.isdir(proc):
        yield from _processes_by_ps()
        return
    for number in sorted(number for name in os.listdir(proc) if (number := natural(name)) is not None):
        try:
            with open(f"{proc}/{number}/cmdline", "rb") as file:
                argv = file.read().split(b"\0")[:-1]
        except OSError:  # the process has ended, or belongs to another user
            continue
        yield number, [word.decode(errors="surrogateescape") for word in argv]


def _processes_by_ps() -> Iterator[tuple[int, list[str]]]:
    listed = subprocess.run(["ps", "axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        pid, *argv = split_blanks(line)
        yield parse_int(pid), argv


def _directory(proc: str, pid: int) -> str:
    try:
        return os.readlink(f"{proc}/{pid}/cwd")
    except OSError:
        return os.getcwd()


def _matches(server: Server, options: ServerStopOptions) -> bool:
    texts = _properties(server)
    if options.node_id is not None:
        return trim(texts.get("node.id", texts.get("broker.id", ""))) == str(options.node_id)
    assert options.process_role is not None
    return _roles(texts.get("process.roles", "")) == _roles(options.process_role)


def _roles(text: str) -> set[str]:
    return {trim(role) for role in text.split(",") if trim(role)}


def _properties(server: Server) -> dict[str, str]:
    """Returns the properties of the server's file, overridden by the properties of its command line."""
    from kcli.config.definition import ConfigError
    from kcli.config.properties import load

    file, overrides = "", {}
    words = iter(server.words)
    for word in words:
        if word == "--override":
            name, _, value = next(words, "").partition("=")
            overrides[name] = value
        elif word.startswith("--override="):
            name, _, value = word.removeprefix("--override=").partition("=")
            overrides[name] = value
        elif not word.startswith("-"):
            file = word
    try:
        return dict(load(os.path.join(server.directory, file))) | overrides
    except (OSError, ConfigError):
        raise CommandError(f"{MISSING_FILE} (process {server.pid}: {file or 'no file named'})") from None


def _signal(name: str) -> int:
    try:
        number = natural(name)
        return signal.Signals[f"SIG{name.removeprefix('SIG')}"].value if number is None else number
    except KeyError:
        raise CommandError(f"SIGNAL={name} is not a signal: expected one such as TERM, INT or KILL") from None


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # the process has already ended
    except PermissionError:
        raise CommandError(f"not permitted to stop process {pid}: it belongs to another user") from None


command = Command(
    name="server-stop",
    description="Stop the servers on this machine.",
    options=ServerStopOptions,
    run=run,
    family=Family.ARGPARSE4J,
    prog="kafka-server-stop",
    help_exit=0,
    examples=(
        Example(
            "Stop the server with node.id 3 on this machine:",
            "kcli server-stop --node-id 3",
        ),
    ),
    exit_status=(
        (0, "The servers got the signal to stop. The command does not wait until they have stopped."),
        (
            1,
            (
                "No such server runs on this machine, the server belongs to another user, or the options are "
                "wrong."
            ),
        ),
    ),
)
