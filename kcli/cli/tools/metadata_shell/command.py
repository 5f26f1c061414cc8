"""kafka-metadata-shell: shows a segment or snapshot of `__cluster_metadata-0` as a directory tree in a shell."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Family, did_you_mean, option
from kcli.cli.tools.metadata_shell.tree import Node, absolute, lookup, matching, metadata_tree, walk
from kcli.command.examples import INTERRUPTED, Example
from kcli.model.java_text import parse_int, trim

PROMPT = ">> "
HISTORY_DEFAULT = 100
COLUMN_GAP = 2


class Finished(Exception):
    """Raised by the command `exit`."""


@dataclass(slots=True)
class Shell:
    """The state of a shell: the tree, the current directory and the history."""

    root: Node
    say: Callable[[str], None]
    is_terminal: bool = False
    directory: str = "/"
    history: list[str] = field(default_factory=list)

    def run(self, words: list[str], *, interactive: bool) -> None:
        """Runs one command and prints its errors. Raises Finished if the command is `exit`."""
        commands = _COMMANDS | _INTERACTIVE if interactive else _COMMANDS
        name, *arguments = words
        command = commands.get(name)
        if command is None:
            known = sorted(commands)
            choose = ", ".join(f"'{word}'" for word in known)
            hint = did_you_mean(name, known)
            self.say(f"invalid choice: '{name}' (choose from {choose})" + (f"\n{hint}" if hint else ""))
            return
        command.run(self, arguments)

    def nodes(self, name: str, arguments: list[str]) -> Iterator[tuple[str, Node]]:
        """Yields the paths that the arguments name (default: the current directory).

        Prints an error for a missing path.
        """
        for argument in arguments or ["."]:
            paths = matching(self.root, absolute(argument, self.directory))
            if not paths:
                self.say(f"{name}: {absolute(argument, self.directory)}: No such file or directory.")
            for path in paths:
                node = lookup(self.root, path)
                assert node is not None
                yield path, node


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of the shell."""

    arguments: str
    help: str
    run: Callable[[Shell, list[str]], None]


def _cat(shell: Shell, arguments: list[str]) -> None:
    if not arguments:
        shell.say("error: too few arguments")
        return
    for path, node in shell.nodes("cat", arguments):
        shell.say(node if isinstance(node, str) else f"cat: {path}: Is a directory.")


def _ls(shell: Shell, arguments: list[str]) -> None:
    nodes = list(shell.nodes("ls", arguments))
    files = [path for path, node in nodes if isinstance(node, str)]
    directories = [(path, node) for path, node in nodes if not isinstance(node, str)]
    if files:
        shell.say(_listed(shell, [path.rpartition("/")[2] for path in files]))
    for number, (path, node) in enumerate(directories):
        if files or number:
            shell.say("")
        if len(nodes) > 1:
            shell.say(f"{path}:")
        if node:
            shell.say(_listed(shell, sorted(node)))


def _listed(shell: Shell, names: list[str]) -> str:
    """Returns names one per line, or in columns on a terminal."""
    if not shell.is_terminal:
        return "\n".join(names)
    width = max(map(len, names)) + COLUMN_GAP
    count = max(1, shutil.get_terminal_size().columns // width)
    rows = -(-len(names) // count)
    return "\n".join("".join(f"{name:<{width}}" for name in names[row::rows]).rstrip() for row in range(rows))


def _tree(shell: Shell, arguments: list[str]) -> None:
    for path, node in shell.nodes("tree", arguments):
        shell.say(f"{path}:" if not isinstance(node, str) else path)
        _branch(shell, node, 1)


def _branch(shell: Shell, node: Node, depth: int) -> None:
    indent = "  " * depth
    if isinstance(node, str):
        shell.say("\n".join(indent + line for line in node.splitlines()))
        return
    for name in sorted(node):
        child = node[name]
        shell.say(f"{indent}{name}" if isinstance(child, str) else f"{indent}{name}:")
        _branch(shell, child, depth + 1)


def _find(shell: Shell, arguments: list[str]) -> None:
    for path, node in shell.nodes("find", arguments):
        for below in walk(path, node):
            shell.say(below)


def _cd(shell: Shell, arguments: list[str]) -> None:
    path = absolute(arguments[0] if arguments else "/", shell.directory)
    node = lookup(shell.root, path)
    if node is None:
        shell.say(f"cd: {path}: no such file or directory.")
    elif isinstance(node, str):
        shell.say(f"cd: {path}: not a directory.")
    else:
        shell.directory = path


def _pwd(shell: Shell, _arguments: list[str]) -> None:
    shell.say(shell.directory)


def _history(shell: Shell, arguments: list[str]) -> None:
    count = HISTORY_DEFAULT
    if arguments:
        try:
            count = max(parse_int(arguments[0]), 0)
        except ValueError:
            shell.say(f"history: {arguments[0]}: expected a number of lines.")
            return
    first = max(0, len(shell.history) - count)
    for number, line in enumerate(shell.history[first:], start=first + 1):
        shell.say(f"{number:>5}  {line}")


def _help(shell: Shell, _arguments: list[str]) -> None:
    shell.say("Commands of the metadata shell:\n")
    for name, verb in sorted((_COMMANDS | _INTERACTIVE).items()):
        shell.say(f"  {name + ' ' + verb.arguments:<22}{verb.help}")


def _man(shell: Shell, arguments: list[str]) -> None:
    if not arguments:
        shell.say("man: expected a command, as in: man ls")
        return
    verb = (_COMMANDS | _INTERACTIVE).get(arguments[0])
    if verb is None:
        shell.say(f"man: there is no command {arguments[0]}; `help` lists them.")
        return
    shell.say(f"{arguments[0]}: {verb.help}\n\nusage: {arguments[0]} {verb.arguments}".rstrip())


def _exit(_shell: Shell, _arguments: list[str]) -> None:
    raise Finished


_COMMANDS = {
    "cat": Verb("PATH ...", "Show the contents of files.", _cat),
    "find": Verb("[PATH ...]", "List everything below directories.", _find),
    "ls": Verb("[PATH ...]", "List directories.", _ls),
    "tree": Verb("[PATH ...]", "Show directories with everything in them.", _tree),
}
_INTERACTIVE = {
    "cd": Verb("[PATH]", "Go to a directory.", _cd),
    "exit": Verb("", "Leave the shell.", _exit),
    "help": Verb("", "List the commands.", _help),
    "history": Verb("[COUNT]", "Show the commands that were typed.", _history),
    "man": Verb("COMMAND", "Explain a command.", _man),
    "pwd": Verb("", "Show the current directory.", _pwd),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOptions(CommonOptions):
    snapshot: str = option("A .checkpoint or .log file of the metadata log.", short="s", required=True)


@dataclass(frozen=True, slots=True)
class ShellOutput:
    """The output row of one command of the shell."""

    text: str


def run(options: ShellOptions, output: Output) -> int:
    """Runs one command from the command line, or an interactive shell."""
    from kcli import KAFKA_VERSION
    from kcli.cli.tools.metadata_shell.loader import SnapshotProblem, loaded_image

    interactive = not options.arguments
    if interactive:
        output.say("Loading...")
    try:
        image = loaded_image(options.snapshot)
    except SnapshotProblem as error:
        raise CommandError(f"Unexpected error: {error}") from error
    shell = Shell(
        metadata_tree(image, version=KAFKA_VERSION),
        lambda text: output.row(ShellOutput(text), text),
        is_terminal=interactive and sys.stdout.isatty(),
    )
    if not interactive:
        shell.run(list(options.arguments), interactive=False)
        return 0
    output.say("Starting...")
    output.say("[ Kafka Metadata Shell ]")
    with contextlib.suppress(Finished):
        for line in _typed():
            _obey(shell, line)
    return 0


def _obey(shell: Shell, line: str) -> None:
    if not trim(line):
        return
    shell.history.append(line)
    try:
        words = shlex.split(line)
    except ValueError as error:
        shell.say(f"{line}: {error}")
        return
    if words:
        shell.run(words, interactive=True)


def _typed() -> Iterator[str]:
    """Yields the lines of a file, or of a terminal with editing and history."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  input() edits with it
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            sys.stdout.write("\n")
            return


command = Command(
    name="metadata-shell",
    description="The Apache Kafka metadata tool",
    family=Family.ARGPARSE4J,
    prog="kafka-metadata-shell",
    file_arguments=True,
    positional="command",
    options=ShellOptions,
    run=run,
    examples=(
        Example(
            "List the topics in a copy of the metadata log:",
            "cp data/__cluster_metadata-0/00000000000000000000.log metadata.log\n"
            "kcli metadata-shell --snapshot metadata.log ls /image/topics/byName",
        ),
    ),
    exit_status=(
        (
            0,
            "The shell command (such as ls) ran. The code is also 0 if the arguments of the shell command are wrong.",
        ),
        (
            1,
            (
                "The file could not be read, a running node has locked the directory of the file, or the options "
                "are wrong."
            ),
        ),
        INTERRUPTED,
    ),
)
