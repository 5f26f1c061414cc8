"""Measures the source tree itself: its imports, folders, types and prose. Uses the standard library only.

    PYTHONPATH=tests python -m rigs.house [--verbose] [--json] [--tree DIR] [--update]

Prints one row per measure, with its goal. `--verbose` lists every place as file:line, by folder. `--tree` measures
another checkout, for a comparison of before and after. `--update` writes the counts of prose to
tests/rigs/tidy_counts.json, which tests/unit/test_tidy_prose.py compares with the tree.

Each measure is a function below, whose docstring is the rule for counting. Generated messages are not counted, except
in the import circles.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTS_FILE = "tests/rigs/tidy_counts.json"

LONG_SENTENCE_WORDS = 35
LONG_FUNCTION_LINES = 60

BEFORE = {
    "import_circles": 1,
    "largest_folder": 29,
    "topic_partitions": 1,
    "host_port_parsers": 1,
    "any": 101,
    "untyped_handlers": 0,
    "two_colours": 128,
    "twins": 16,
    "per_turn": 57,
    "expressions": 0,
    "long_sentences": 0,
    "mean_lines": 146,
    "longest_file": 1015,
    "long_functions": 4,
    "request_builders": 20,
    "class_methods": 77,
    "ports_fields": 32,
    "kcli_lines": 157_492,
    "wheel_lines": 164_949,
}
"""The figures of commit d6ac420d, measured by these functions with `--tree`."""

EXPRESSIONS = (
    "anew",
    "whoever",
    "nobody",
    "somebody",
    "is meant",
    "with a word",
    "but for",
    "so many at once",
    "is none",
    "is told",
    "are told",
    "go on",
    "goes on",
    "mends",
    "mended",
)
"""Expressions that cost a reader a second reading."""

PYTHON_FOLDERS = ("kcli", "pyspark_kcli", "tests", "bench", "docs")
PROSE_FOLDERS = ("docs", "man", "bin", "config", "tests")
PROSE_ENDINGS = (".md", ".1", ".sh", ".txt", ".properties")
PROSE_FILES = ("Makefile", "pyproject.toml", ".ci/run", "bin/quickstart", "bin/test")
"""Files with prose that have none of the PROSE_ENDINGS.

In the root folder, files with such an ending are found as well.
"""

GENERATED_FOLDER = "messages"
RECORDED_FOLDER = "tests/golden/"
"""The folder whose pages are recorded from Kafka. The Python files in it are ours."""
FOLDERS_OF_ONE_KIND = frozenset({"handlers", GENERATED_FOLDER})
"""Folders with one file per API. Their size says nothing about the order of the house."""


@dataclass(frozen=True, slots=True)
class Place:
    """A finding: the path relative to the tree, the line (0 for a whole file), and a few words."""

    path: str
    line: int
    words: str

    @property
    def folder(self) -> str:
        """The folder in which it is counted: kcli/<room>, another folder of the root, or a file of the root."""
        parts = self.path.split("/")
        return "/".join(parts[:2]) if parts[0] == "kcli" and len(parts) > 2 else parts[0]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.words}"


@dataclass(frozen=True, slots=True)
class Prose:
    """A text for readers and the line at which it begins. In the name of a test, spaces replace the underscores."""

    path: str
    line: int
    text: str
    kind: str
    """page, docstring, comment, string or name"""


@dataclass(frozen=True)
class Source:
    """A Python file of the tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def module(self) -> str:
        """The dotted name, for example `kcli.cli` for kcli/cli/__init__.py."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def generated(self) -> bool:
        return GENERATED_FOLDER in self.path.split("/")


@dataclass(frozen=True)
class House:
    """A checkout: its Python files, and its pages of prose."""

    root: Path

    @cached_property
    def python(self) -> tuple[Source, ...]:
        return tuple(_sources(self.root, PYTHON_FOLDERS, (".py",)))

    @cached_property
    def pages(self) -> tuple[Source, ...]:
        named = [self.root / name for name in PROSE_FILES]
        at_root = sorted(self.root.glob("*.md"))
        found = [_source(self.root, path) for path in (*at_root, *named) if path.is_file()]
        found.extend(_sources(self.root, PROSE_FOLDERS, PROSE_ENDINGS))
        return tuple(page for page in found if not page.path.startswith(RECORDED_FOLDER))

    @cached_property
    def kcli(self) -> tuple[Source, ...]:
        """The modules of kcli, without generated messages."""
        return tuple(source for source in self.modules if not source.generated)

    @property
    def modules(self) -> Iterator[Source]:
        return (source for source in self.python if source.path.startswith("kcli/"))

    @cached_property
    def arrows(self) -> tuple[Arrow, ...]:
        """Each import of a module of kcli by a module of kcli."""
        return tuple(_arrows(self))

    @cached_property
    def prose(self) -> tuple[Prose, ...]:
        pages = (Prose(page.path, 1, page.text, "page") for page in self.pages)
        python = (prose for source in self.python if not source.generated for prose in _prose(source))
        names = (
            Prose(source.path, 0, Path(source.path).stem.replace("_", " "), "name")
            for source in (*self.python, *self.pages)
            if source.path.startswith("tests/")
        )
        return (*pages, *python, *names)


def _sources(root: Path, folders: Iterable[str], endings: tuple[str, ...]) -> Iterator[Source]:
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in endings and path.is_file():
                yield _source(root, path)


def _source(root: Path, path: Path) -> Source:
    return Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


# Imports


@dataclass(frozen=True, slots=True)
class Arrow:
    """An import of one module by another. `when` is import, lazy (inside a function) or types (TYPE_CHECKING)."""

    origin: str
    target: str
    when: str
    place: Place


def import_circles(house: House, kinds: Sequence[str] = ("import", "lazy", "types")) -> list[tuple[str, ...]]:
    """Returns the strongly connected components with more than one module in the import graph of kcli.

    `from package import module` points to the module, not to the package. Importing a module does not count as
    importing the packages above it. Modules that are named in strings do not count. `kinds` selects the imports.
    """
    graph: dict[str, set[str]] = {source.module: set() for source in house.modules}
    for arrow in house.arrows:
        if arrow.when in kinds:
            graph[arrow.origin].add(arrow.target)
    circles = [component for component in _components(graph) if len(component) > 1]
    return sorted(circles, key=lambda circle: (-len(circle), circle))


def _arrows(house: House) -> list[Arrow]:
    sources = {source.module: source for source in house.modules}
    found = []
    for name, source in sources.items():
        for node, when in _imports(source.tree, "import"):
            for target in dict.fromkeys(_targets(node, source, sources)):
                if target != name:
                    place = Place(source.path, node.lineno, f"-> {target} ({when})")
                    found.append(Arrow(name, target, when, place))
    return found


def _imports(node: ast.AST, when: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, "lazy")
        elif isinstance(child, ast.If) and _name(child.test) == "TYPE_CHECKING":
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), "types")
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), when)
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _imports(child, when)


def _targets(
    node: ast.Import | ast.ImportFrom, source: Source, modules: Mapping[str, Source]
) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
        return
    base = node.module or ""
    if node.level:
        package = source.folder.split("/")
        above = package[: len(package) - node.level + 1]
        base = ".".join([*above, *filter(None, [base])])
    for alias in node.names:
        for target in (f"{base}.{alias.name}", base):
            if target in modules:
                yield target
                break


def _components(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """Yields the strongly connected components of a graph (by Kosaraju's algorithm)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(graph):
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(sorted(graph[start])))]
        while stack:
            node, ahead = stack[-1]
            following = next((each for each in ahead if each not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(graph[following]))))
    reverse: dict[str, set[str]] = defaultdict(set)
    for origin, targets in graph.items():
        for target in targets:
            reverse[target].add(origin)
    taken: set[str] = set()
    for start in reversed(order):
        members, waiting = [], [start]
        while waiting:
            node = waiting.pop()
            if node not in taken:
                taken.add(node)
                members.append(node)
                waiting.extend(reverse[node])
        if members:
            yield tuple(sorted(members))


def circle_places(house: House) -> list[Place]:
    """Returns one place per circle.

    Its text has the modules of the circle, then the lazy and type-only imports among them.
    """
    places = []
    for circle in import_circles(house):
        inside = [arrow for arrow in house.arrows if arrow.origin in circle and arrow.target in circle]
        late = [f"    {arrow.place}" for arrow in inside if arrow.when != "import"]
        words = f"{len(circle)} modules: {', '.join(circle)}"
        places.append(Place(inside[0].place.path, inside[0].place.line, "\n".join([words, *late])))
    return places


# Folders and files


def largest_folder(house: House) -> tuple[str, int]:
    """Returns the folder of kcli with most Python files directly in it (without `__init__.py`), and their number.

    Folders named handlers and messages are not counted, because they have one file per API.
    """
    count = Counter(
        source.folder
        for source in house.modules
        if not source.path.endswith("/__init__.py")
        and source.folder.rpartition("/")[2] not in FOLDERS_OF_ONE_KIND
    )
    return max(count.items(), key=lambda item: (item[1], item[0]), default=("kcli", 0))


def file_lines(house: House) -> dict[str, int]:
    """Returns the number of lines of each module of kcli."""
    return {source.path: source.text.count("\n") for source in house.kcli}


def long_functions(house: House) -> list[Place]:
    """Returns functions of kcli with more than 60 lines, from `def` to the last line, without decorators."""
    return [
        Place(source.path, node.lineno, f"{node.name}: {lines} lines")
        for source in house.kcli
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG_FUNCTION_LINES
    ]


# Nouns and types


def topic_partitions(house: House) -> list[Place]:
    """Returns classes, assignments and type aliases with the name TopicPartition or _TopicPartition, and each other
    name for the type `tuple[str, int]`.

    Imports are not counted.
    """
    return [
        Place(source.path, node.lineno, name)
        for source in house.kcli
        for node in source.nodes
        if isinstance(node, ast.stmt)
        for name in _declared(node)
        if name.lstrip("_") == "TopicPartition" or _is_pair(node)
    ]


def _is_pair(node: ast.stmt) -> bool:
    """Whether the statement gives a name to the type `tuple[str, int]`."""
    value = getattr(node, "value", None)
    return isinstance(value, ast.Subscript) and ast.unparse(value) == "tuple[str, int]"


def _declared(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign):
        yield _name(node.target)
    elif type(node).__name__ == "TypeAlias":  # ast has the class TypeAlias from Python 3.12 on
        yield _name(node.name)  # type: ignore[attr-defined]


_ENDS_IN_PORT = re.compile(r":\((?:\?P<\w+>)?-?(?:\\d|\[0-9\])[^()]*\)(?:\$|\\Z)?$")


def host_port_parsers(house: House) -> list[Place]:
    """Returns functions that parse host:port.

    They split at the last colon, or match a pattern that ends in `:(digits)`. They also use the name of a port.

    The name of a port has `port` as one of the words between its underscores. The figure is the number of modules with
    such functions. Parsers that read more than an address (voters with a directory) are not counted.
    """
    patterns = {source.path: _port_patterns(source) for source in house.kcli}
    shared = {name for names in patterns.values() for name in names if not name.startswith("_")}
    places = []
    for source in house.kcli:
        known = patterns[source.path] | shared
        for function in source.nodes:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = list(ast.walk(function))
                names = {_name(node) for node in inside}
                splits = any(_splits_at_last_colon(node) for node in inside)
                if (splits or names & known) and any("port" in name.lower().split("_") for name in names):
                    places.append(Place(source.path, function.lineno, function.name))
    return places


def _port_patterns(source: Source) -> set[str]:
    """Returns the names of a module's regular expressions that end in a colon and a group of digits."""
    found: set[str] = set()
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            pattern = node.value.args[0]
            if (
                _name(node.value.func) == "compile"
                and isinstance(pattern, ast.Constant)
                and isinstance(pattern.value, str)
                and _ENDS_IN_PORT.search(pattern.value)
            ):
                found.update(_declared(node))
    return found


def _splits_at_last_colon(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and _name(node.func) in ("rpartition", "rsplit")
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == ":"
    )


def uses_of_any(house: House) -> list[Place]:
    """Returns each `Any` as a name, as an attribute (`typing.Any`) or in a quoted type.

    Imports of `Any` are not counted.
    """
    return [
        Place(source.path, node.lineno, "Any")
        for source in house.kcli
        for node in source.nodes
        if isinstance(node, ast.expr)
        for _ in range(_anys(node))
    ]


_QUOTED_TYPE = re.compile(r"[\w.\[\], |]+")


def _anys(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _QUOTED_TYPE.fullmatch(node.value):
        try:
            return sum(_name(part) == "Any" for part in ast.walk(ast.parse(node.value, mode="eval")))
        except SyntaxError:
            return 0
    return int(_name(node) == "Any")


def untyped_handlers(house: House) -> list[Place]:
    """Returns functions `handle` in folders `handlers` whose answer type is not declared or contains Any or object."""
    return [
        Place(source.path, node.lineno, ast.unparse(node.returns) if node.returns else "no answer type")
        for source in house.kcli
        if source.folder.rpartition("/")[2] == "handlers"
        for node in source.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "handle"
        if node.returns is None or re.search(r"\b(Any|object)\b", ast.unparse(node.returns))
    ]


def two_colours(house: House) -> list[Place]:
    """Returns functions of kcli whose answer is either a value or an awaitable of it, such as `X | Awaitable[X]`.

    An event that may be None is not counted.
    """
    return [
        Place(source.path, node.lineno, f"{node.name} -> {ast.unparse(node.returns)}")
        for source, node in _functions(house)
        if node.returns is not None and _is_of_two_colours(node.returns)
    ]


_AWAITABLES = frozenset({"Awaitable", "Coroutine", "Future", "Task"})


def _is_of_two_colours(returns: ast.expr) -> bool:
    members = list(_members(returns))
    values = {ast.unparse(member) for member in members} - {"None"}
    return any(
        isinstance(member, ast.Subscript)
        and _name(member.value) in _AWAITABLES
        and ast.unparse(member.slice) in values
        for member in members
    )


def _members(union: ast.expr) -> Iterator[ast.expr]:
    if isinstance(union, ast.BinOp):
        yield from _members(union.left)
        yield from _members(union.right)
    else:
        yield union


def twins(house: House) -> list[Place]:
    """Returns functions of kcli named `x_steps` or `x_in_turns` in a module that also has a function `x`."""
    names: dict[str, set[str]] = defaultdict(set)
    for source, node in _functions(house):
        names[source.path].add(node.name.lstrip("_"))
    return [
        Place(source.path, node.lineno, node.name)
        for source, node in _functions(house)
        for ending in ("_steps", "_in_steps", "_in_turns")
        if node.name.endswith(ending) and node.name.removesuffix(ending).lstrip("_") in names[source.path]
    ]


def per_turn_constants(house: House) -> list[Place]:
    """Returns constants of kcli whose name is or ends with PER_TURN. Work that charges its pace has a cost instead."""
    return [
        Place(source.path, node.lineno, name)
        for source in house.kcli
        for node in source.nodes
        if isinstance(node, ast.stmt)
        for name in _declared(node)
        if f"_{name}".endswith("_PER_TURN")
    ]


def _functions(house: House) -> Iterator[tuple[Source, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for source in house.kcli:
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield source, node


def _name(node: ast.AST) -> str:
    """Returns the identifier of a name, argument or attribute. The result is empty for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.arg if isinstance(node, ast.arg) else ""


# Prose

_STRING_OR_COMMENT = re.compile(
    r"""(?P<quote>\"\"\"|'''|"|')(?:\\.|(?!(?P=quote)).)*(?P=quote)|(?P<comment>\#[^\n]*)""", re.DOTALL
)


def _prose(source: Source) -> Iterator[Prose]:
    """Yields docstrings, comments and string literals of a Python file.

    For tests it yields the names instead of the literals.

    The string literals of tests repeat texts of kcli or of Kafka.
    """
    in_tests = source.path.startswith("tests/")
    parts_of_others: set[int] = set()
    # Source.tree is not used: the garbage collector is slow while the trees of all files are kept.
    tree = ast.parse(source.text, source.path)
    for node in ast.walk(tree):
        if id(node) in parts_of_others:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts_of_others.add(id(node.value))
            if isinstance(node.value.value, str):
                yield Prose(source.path, node.lineno, node.value.value, "docstring")
        elif isinstance(node, ast.JoinedStr):
            parts_of_others.update(id(part) for part in node.values)
            if not in_tests:
                parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield _string(source, node, "".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not in_tests and node.value not in EXPRESSIONS:  # EXPRESSIONS itself is not prose
                yield _string(source, node, node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name.replace("_", " ")
            if in_tests and name.lower().startswith("test"):
                yield Prose(source.path, node.lineno, name, "name")
    yield from _comments(source)


def _string(source: Source, node: ast.expr, text: str) -> Prose:
    """Returns a string literal.

    All of its text counts for its first line, because an escaped line end does not start a line.
    """
    return Prose(source.path, node.lineno, text.replace("\n", " "), "string")


def _comments(source: Source) -> Iterator[Prose]:
    """Yields comments. The comments of consecutive lines are one text."""
    begin, last, lines = 0, -1, list[str]()
    line, scanned = 1, 0
    for match in _STRING_OR_COMMENT.finditer(source.text):
        if match["comment"] is None:
            continue
        line += source.text.count("\n", scanned, match.start())
        scanned = match.start()
        if line != last + 1 and lines:
            yield Prose(source.path, begin, "\n".join(lines), "comment")
            lines = []
        if not lines:
            begin = line
        lines.append(match["comment"].lstrip("# "))
        last = line
    if lines:
        yield Prose(source.path, begin, "\n".join(lines), "comment")


_EXPRESSION = re.compile(
    r"\b(?!is\s+None\b)(?i:" + "|".join(each.replace(" ", r"[\s#]+") for each in EXPRESSIONS) + r")\b"
)


def expressions(house: House) -> list[Place]:
    """Returns each of EXPRESSIONS in pages, docstrings, comments, string literals outside tests, and names of tests.

    Upper and lower case are not distinguished, and a line may end between two words. `is None` is Python and is not
    counted.
    """
    return [
        Place(prose.path, _line(prose, match.start()), f"{' '.join(match[0].split())} ({prose.kind})")
        for prose in house.prose
        for match in _EXPRESSION.finditer(prose.text)
    ]


def _line(prose: Prose, at: int) -> int:
    return prose.line + prose.text.count("\n", 0, at)


_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s+")
_NO_SENTENCE = re.compile(r"\s*(?:\||#{1,6} |={3,}|-{3,}|<!--|>>>)")
_URL = re.compile(r"\w+://\S+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"(`+)(?:(?!\1).)+\1", re.DOTALL)
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|cf|vs|approx)\.")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+")
_LIST_OF_NAMES = re.compile(r"[^\s,;:()]+(?:,\s+[^\s,;:()]+){3,}(?:,?\s+(?:and|or)\s+[^\s,;:()]+)?")


def long_sentences(house: House) -> list[Place]:
    """Returns sentences of more than 35 words in docstrings and in *.md, except CHANGELOG.md.

    A sentence ends with a full stop, `!` or `?` before a space, or with its paragraph or list item. Code blocks (fenced
    or indented), tables and headings have no sentences. A piece of inline code is one word, and so are a URL and a list
    of four or more names.
    """
    places = []
    for prose in house.prose:
        page = prose.kind == "page" and prose.path.endswith(".md") and prose.path != "CHANGELOG.md"
        if page or prose.kind == "docstring":
            for line, sentence, words in sentences(prose.text):
                if words > LONG_SENTENCE_WORDS:
                    start = " ".join(sentence.split()[:8])
                    places.append(Place(prose.path, prose.line + line, f"{words} words: {start} …"))
    return places


def sentences(text: str) -> Iterator[tuple[int, str, int]]:
    """Yields the sentences of a page or docstring: the line number from 0, the text, and the number of words."""
    for first_line, paragraph in _paragraphs(text):
        # Line ends are kept while inline code is masked, so that the line of each sentence can be counted.
        masked = _CODE.sub(lambda match: "Code" + "\n" * match[0].count("\n"), paragraph)
        masked = _LINK.sub(r"\1", _URL.sub("Url", masked))
        masked = _ABBREVIATION.sub(lambda match: match[1].replace(".", ""), masked)
        at = 0
        for end in [*_SENTENCE_END.finditer(masked), None]:
            sentence = masked[at : end.start() if end else len(masked)]
            if sentence.strip():
                yield first_line + masked.count("\n", 0, at), sentence, _words(sentence)
            at = end.end() if end else at


def _words(sentence: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in _LIST_OF_NAMES.sub("Names", sentence).split())


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yields paragraphs and list items: the line number from 0 and the text. Skips code blocks, tables and headings."""
    head, newline, rest = text.partition("\n")
    begin, lines, in_fence, in_item = 0, list[str](), False, False
    for number, line in enumerate((head + newline + textwrap.dedent(rest)).split("\n")):
        fence = _FENCE.match(line) is not None
        item = _ITEM.match(line.lstrip())
        indented = line.startswith(("  ", "\t"))
        code = fence or in_fence or _NO_SENTENCE.match(line) or (indented and not in_item and not item)
        in_fence ^= fence
        if lines and (code or item or not line.strip()):
            yield begin, "\n".join(lines)
            lines = []
        if code or not line.strip():
            continue
        if not lines:
            begin = number
            in_item = item is not None or (in_item and indented)
        lines.append(line.lstrip()[item.end() :] if item else line)
    if lines:
        yield begin, "\n".join(lines)


# Counts that must not rise


def prose_counts(house: House) -> dict[str, dict[str, int]]:
    """Returns the numbers of expressions and of long sentences by folder. Folders without any are omitted."""
    return {
        "expressions": by_folder(expressions(house)),
        "long_sentences": by_folder(long_sentences(house)),
    }


def by_folder(places: Iterable[Place]) -> dict[str, int]:
    return dict(sorted(Counter(place.folder for place in places).items()))


def update(house: House) -> str:
    """Writes the counts. Raises ValueError if a sum would rise. A count may move from one folder to another."""
    path = house.root / COUNTS_FILE
    counts = prose_counts(house)
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for measure, count in counts.items():
        allowed = sum(before.get(measure, count).values())
        if sum(count.values()) > allowed:
            raise ValueError(f"{measure}: {sum(count.values())} in the tree, {allowed} allowed")
    path.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    return ", ".join(f"{measure}: {sum(count.values())}" for measure, count in counts.items())


# Sizes

REQUESTS_OF_CLIENTS = frozenset({"FetchRequest", "ProduceRequest", "FindCoordinatorRequest"})


def request_builders(house: House) -> list[Place]:
    """Returns calls of FetchRequest, ProduceRequest and FindCoordinatorRequest outside of protocol/.

    The figure is the number of modules with such calls. Requests of raft with such a name are not messages of the
    protocol.
    """
    return [
        Place(source.path, node.lineno, _name(node.func))
        for source in house.kcli
        if not source.path.startswith(("kcli/protocol/", "kcli/raft/"))
        for of_raft in [_imported_from_raft(source)]
        for node in source.nodes
        if isinstance(node, ast.Call) and _name(node.func) in REQUESTS_OF_CLIENTS
        if not (isinstance(node.func, ast.Name) and node.func.id in of_raft)
    ]


def _imported_from_raft(source: Source) -> set[str]:
    return {
        alias.name
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kcli.raft")
        for alias in node.names
    }


def methods_of_classes(house: House) -> dict[str, int]:
    """Returns the number of methods of each class of kcli, with properties and special methods."""
    return {
        f"{source.path} {node.name}": sum(
            isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) for member in node.body
        )
        for source in house.kcli
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }


def fields_of_ports(house: House) -> dict[str, int]:
    """Returns the number of fields of each dataclass whose name ends in `Ports`.

    Fields of a base class count too, if the module has this class.
    """
    found = {}
    for source in house.kcli:
        classes = {node.name: node for node in source.tree.body if isinstance(node, ast.ClassDef)}
        for name, node in classes.items():
            if name.endswith("Ports") and any(
                "dataclass" in ast.unparse(each) for each in node.decorator_list
            ):
                family = [node, *(classes[_name(base)] for base in node.bases if _name(base) in classes)]
                fields = [part for each in family for part in each.body if isinstance(part, ast.AnnAssign)]
                found[f"{source.path} {name}"] = len(fields)
    return found


def wheel_lines(house: House) -> int:
    """Returns the lines of the Python files that the wheel has: kcli with generated messages, and pyspark_kcli."""
    return sum(
        source.text.count("\n")
        for source in house.python
        if source.path.startswith(("kcli/", "pyspark_kcli/"))
    )


# The table


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a measure: its name in JSON and in the table, the figure, the goal (or None), and a remark."""

    key: str
    title: str
    figure: float
    goal: int | None = None
    remark: str = ""
    places: tuple[Place, ...] = ()

    def line(self) -> str:
        goal = "" if self.goal is None else f"{self.goal}"
        before = _digits(BEFORE[self.key]) if self.key in BEFORE else ""
        return f"{self.title:<44}{before:>10}{_digits(self.figure):>10}{goal:>8}  {self.remark}".rstrip()


def _digits(figure: float) -> str:
    return f"{figure:,}"


def measure(house: House) -> list[Row]:
    circles = [len(import_circles(house, kinds)) for kinds in (("import",), ("import", "lazy"))]
    folder, size = largest_folder(house)
    lines = file_lines(house)
    longest = max(lines, key=lambda path: lines[path], default="")
    parsers = host_port_parsers(house)
    builders = request_builders(house)
    methods = methods_of_classes(house)
    largest_class = max(methods, key=lambda name: methods[name], default="")
    ports = fields_of_ports(house)
    largest_ports = max(ports, key=lambda path: ports[path], default="")
    return [
        Row(
            "import_circles",
            "import circles",
            len(import_circles(house)),
            0,
            f"{circles[0]} at import time, {circles[1]} with lazy imports too",
            tuple(circle_places(house)),
        ),
        Row("largest_folder", "files in the largest folder", size, 25, folder),
        _row("topic_partitions", "declarations of TopicPartition", 1, topic_partitions(house)),
        Row(
            "host_port_parsers",
            "modules that parse host:port",
            len({place.path for place in parsers}),
            1,
            f"{len(parsers)} functions",
            tuple(parsers),
        ),
        _row("any", "uses of Any", 149, uses_of_any(house)),
        _row("untyped_handlers", "handlers without a declared answer type", 0, untyped_handlers(house)),
        _row("two_colours", "functions that return X | Awaitable[X]", 0, two_colours(house)),
        _row("twins", "functions with a twin in steps or turns", 0, twins(house)),
        _row("per_turn", "constants PER_TURN", None, per_turn_constants(house)),
        _row("expressions", "expressions to avoid", 39, expressions(house)),
        _row("long_sentences", f"sentences over {LONG_SENTENCE_WORDS} words", 0, long_sentences(house)),
        Row("mean_lines", "lines per file of kcli, mean", round(sum(lines.values()) / max(1, len(lines)))),
        Row("longest_file", "lines of the longest file", lines.get(longest, 0), None, longest),
        _row("long_functions", f"functions over {LONG_FUNCTION_LINES} lines", None, long_functions(house)),
        Row(
            "request_builders",
            "modules that build requests of clients",
            len({place.path for place in builders}),
            None,
            f"{len(builders)} calls of {', '.join(sorted(REQUESTS_OF_CLIENTS))}",
            tuple(builders),
        ),
        Row(
            "class_methods",
            "methods of the largest class",
            methods.get(largest_class, 0),
            None,
            largest_class,
        ),
        Row("ports_fields", "fields of the largest Ports", ports.get(largest_ports, 0), None, largest_ports),
        Row("kcli_lines", "lines of kcli, without generated messages", sum(lines.values())),
        Row("wheel_lines", "lines of Python in the wheel", wheel_lines(house)),
    ]


def _row(key: str, title: str, goal: int | None, places: list[Place]) -> Row:
    return Row(key, title, len(places), goal, "", tuple(places))


def _details(row: Row) -> Iterator[str]:
    """Yields the places of a measure, by folder."""
    yield f"\n{row.title}: {row.figure:g}"
    places = sorted(row.places, key=lambda place: (place.folder, place.path, place.line))
    counts = by_folder(places)
    last = None
    for place in places:
        if place.folder != last:
            yield f"  {place.folder}: {counts[place.folder]}"
            last = place.folder
        yield textwrap.indent(str(place), "    ")


def _as_json(rows: Iterable[Row]) -> str:
    found = {
        row.key: {
            "before": BEFORE.get(row.key),
            "figure": row.figure,
            "goal": row.goal,
            "remark": row.remark,
            "folders": by_folder(row.places),
            "places": [
                {"path": place.path, "line": place.line, "words": place.words} for place in row.places
            ],
        }
        for row in rows
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Measures imports, folders, types and prose of the source tree."
    )
    parser.add_argument("--verbose", action="store_true", help="list every place as file:line")
    parser.add_argument("--json", action="store_true", help="print JSON, with every place")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure (default: this one)")
    parser.add_argument("--update", action="store_true", help=f"write {COUNTS_FILE} instead of printing")
    options = parser.parse_args(argv)
    house = House(options.tree.resolve())
    if options.update:
        try:
            print(update(house))
        except ValueError as error:
            print(f"house: {error}", file=sys.stderr)
            return 1
        return 0
    rows = measure(house)
    if options.json:
        print(_as_json(rows))
        return 0
    print(f"{'measure':<44}{'before':>10}{'now':>10}{'goal':>8}")
    for row in rows:
        print(row.line())
    if options.verbose:
        for row in rows:
            if row.places:
                for line in _details(row):
                    print(line)
    return 0


if __name__ == "__main__":
    gc.disable()  # a million nodes are kept until the end, and each collection would visit all of them
    sys.exit(main())
