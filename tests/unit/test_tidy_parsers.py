"""Text of users, files and clients is parsed as Java does: `int`, `float` and `strip` have places of their own.

Python's parsers accept more than Java's. A value that only they accept may be stored, and then Apache Kafka does not
start on the same directory. So text is parsed with kcli/model/java_text.py and kcli/model/java_json.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

NUMPY = "elements of arrays"
MEASURED = "numbers that a node or a tool has measured"
ENUMS = "members of enums, which are encoded as numbers"
DRIVER = "values of a driver, which has parsed them"
JSON = "numbers of JSON, which have been parsed"
SYSTEM = "text of the operating system"
CONNECT = "numbers of Connect's data model, and digits that a scanner has checked"
OWN = "text that this release has written or checked by a pattern"

PLACES = {
    "kcli/model/java_text.py": "the parsers themselves",
    "kcli/model/java_floats.py": OWN,
    "kcli/model/java_numbers.py": "decimal numbers, which have been parsed",
    "kcli/model/java_regex/translator.py": OWN,
    "kcli/model/java_dates/reader.py": OWN,
    "kcli/connectors/transforms/": "numbers of records",
    "kcli/protocol/batches/": NUMPY,
    "kcli/protocol/wire/": OWN,
    "kcli/storage/cleaner/": NUMPY,
    "kcli/storage/log/opening.py": NUMPY,
    "kcli/spark/sink/": NUMPY,
    "kcli/spark/source/fetcher.py": NUMPY,
    "kcli/spark/source/log_directory.py": NUMPY,
    "kcli/spark/source/segment_files.py": NUMPY,
    "kcli/server/beans/": MEASURED,
    "kcli/cli/tools/e2e_latency.py": MEASURED,
    "kcli/cli/tools/perf_test/": MEASURED,
    "kcli/cli/tools/top/": MEASURED,
    "kcli/console/pages/overview.py": MEASURED,
    "kcli/connect/herders/rebalance_metrics.py": MEASURED,
    "kcli/http/checkup_metrics.py": MEASURED,
    "kcli/spark/jobs/profile/figures.py": MEASURED,
    "kcli/spark/jobs/shared/running.py": MEASURED,
    "kcli/spark/jobs/export/table_commits.py": MEASURED,
    "kcli/connectors/cdc/": "text that PostgreSQL has written, mostly checked by a pattern",
    "kcli/connectors/jdbc/field_types.py": DRIVER,
    "kcli/console/pages/quotas.py": JSON,
    "kcli/formats/avro/": "digits of decimals, and of JSON that a scanner has checked",
    "kcli/formats/connect/": CONNECT,
    "kcli/formats/protobuf/": "numbers of JSON, which have been parsed, and digits that a pattern has checked",
    "kcli/security/token_sources.py": JSON,
    "kcli/client/admin/": ENUMS,
    "kcli/cli/tools/broker_api_versions.py": ENUMS,
    "kcli/console/pages/partitions.py": ENUMS,
    "kcli/security/acls/index.py": ENUMS,
    "kcli/server/handlers/describe_cluster.py": ENUMS,
    "kcli/server/handlers/list_config_resources.py": ENUMS,
    "kcli/server/requests/": ENUMS,
    "kcli/runtime/": SYSTEM,
    "kcli/http/server.py": SYSTEM,
    "kcli/server/network/connection.py": SYSTEM,
    "kcli/local_cluster/supervisor.py": SYSTEM,
    "kcli/spark/connectors/guard.py": SYSTEM,
    "kcli/server/logging/rotation.py": OWN,
    "kcli/cli/tools/console/formatters.py": OWN,
    "kcli/config/properties.py": OWN,
    "kcli/cli/unexpected.py": "an error that is shown on one line",
    "kcli/security/jaas.py": OWN,
    "kcli/security/mechanisms/gssapi.py": OWN,
    "kcli/tracing/otlp.py": OWN,
    "kcli/tracing/stored.py": OWN,
    "kcli/tracing/trace_context.py": OWN,
}
"""The files and folders with arguments of `int` and `float` that are no text of a user, and the reasons."""

NUMBER_CALLS = frozenset(
    {
        "count_nonzero",
        "floor",
        "max",
        "min",
        "monotonic",
        "now",
        "round",
        "searchsorted",
        "sum",
        "time",
        "timestamp",
    }
)
NUMBER_FIELDS = frozenset({"api_key", "recovery_state", "source", "type"})
CONSTANTS = ("inf", "-inf", "nan")


def is_number(node: ast.expr) -> bool:
    """Whether an expression is evidently no text: arithmetic, a comparison, a constant or a member of an enum."""
    match node:
        case ast.Constant(value=value):
            return not isinstance(value, str | bytes) or value in CONSTANTS
        case ast.BinOp(left=left, op=op):
            return not isinstance(op, ast.Mod) or is_number(left)
        case ast.Compare() | ast.UnaryOp():
            return True
        case ast.BoolOp(values=values):
            return all(map(is_number, values))
        case ast.Name(id=name):
            return name.isupper() or name.startswith("is_")
        case (
            ast.Attribute(attr=name)
            | ast.Call(func=ast.Attribute(attr=name))
            | ast.Call(func=ast.Name(id=name))
        ):
            if isinstance(node, ast.Call):
                return name in NUMBER_CALLS or name.startswith(("_is_", "is_", "ignores_", "unpack"))
            return name.isupper() or name.startswith("is_") or name in NUMBER_FIELDS
        case ast.Subscript(value=value):
            return isinstance(value, ast.Call) and is_number(value)
        case _:
            return False


def lax_calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each call that parses text by Python's rules."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="int" | "float"), args=[first, *_]) if not is_number(first):
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="int" | "float"), *_]):
                yield node.lineno, ast.unparse(node)
            case ast.Call(
                func=ast.Attribute(attr="strip" | "split" | "isdigit" | "isnumeric"), args=[], keywords=[]
            ):
                yield node.lineno, ast.unparse(node)
            case ast.keyword(arg="key" | "type", value=ast.Name(id="int" | "float")):
                yield node.value.lineno, ast.unparse(node)


@cache
def lax_places() -> dict[str, list[str]]:
    """The lax calls of each file."""
    found = {}
    for path in sorted((ROOT / "kcli").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("kcli/protocol/messages/"):
            found[name] = [f"{name}:{line}: {call}" for line, call in lax_calls(ast.parse(path.read_bytes()))]
    return found


def test_text_is_parsed_as_java_does() -> None:
    found = [
        call for name, calls in lax_places().items() for call in calls if not name.startswith((*PLACES,))
    ]
    assert not found, "use kcli/model/java_text.py for text, or add the place:\n" + "\n".join(found)


def test_each_place_of_a_number_is_still_needed() -> None:
    lax = [name for name, calls in lax_places().items() if calls]
    assert [place for place in PLACES if not any(name.startswith(place) for name in lax)] == []


@pytest.mark.parametrize(
    "code",
    [
        "int(text)",
        "float(fields['exp'])",
        "int(text, 10)",
        "int(found[1])",
        "text.strip()",
        "text.isdigit()",
        "text.split()",
        "map(int, parts)",
        "sorted(names, key=int)",
    ],
)
def test_a_lax_parser_is_found(code: str) -> None:
    assert len(list(lax_calls(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "int(time.time() * 1000)",
        "int(a > b)",
        "int(Codec.ZSTD)",
        "float('inf')",
        "text.strip(' ')",
        "text.split(' ')",
        "isinstance(x, int)",
    ],
)
def test_a_number_is_no_text(code: str) -> None:
    assert list(lax_calls(ast.parse(code))) == []


WIDER = "what hides secrets may match too much"
OTHERS = "languages of other programs, with words in any script"

PATTERN_PLACES = {
    "kcli/cli/tools/configs/quotas.py": WIDER,
    "kcli/runtime/hidden_arguments.py": WIDER,
    "kcli/console/messages/": "the languages of filters and of JSON, with words in any script",
    "kcli/spark/jobs/sql/": OTHERS,
    "kcli/model/java_dates/reader.py": "DecimalFormat, which reads digits of any script",
}
"""The files and folders with patterns that match digits and white space of all scripts, and the reasons."""

_CLASS = re.compile(r"(?<!\\)(?:\\\\)*\\[dsw]")


def lax_patterns(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each pattern with `\\d`, `\\s` or `\\w` that does not have the meaning of Java's."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[pattern, *_]):
                texts = [each.value for each in ast.walk(pattern) if isinstance(each, ast.Constant)]
                is_wide = any(_CLASS.search(text) for text in texts if isinstance(text, str))
                if is_wide and name != "escape" and "re.ASCII" not in ast.unparse(node):
                    yield node.lineno, ast.unparse(node)


def test_patterns_match_as_in_java() -> None:
    found = [
        f"{name}:{line}: {call}"
        for path in sorted((ROOT / "kcli").rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith((*PATTERN_PLACES,))
        for line, call in lax_patterns(ast.parse(path.read_bytes()))
    ]
    assert not found, "use re.ASCII for text, or add the place:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (r"re.compile(r'\d+')", 1),
        (r"re.fullmatch(r'a' + r'\s*', text, re.DOTALL)", 1),
        (r"re.search(rf'{part}[\w.]', text)", 1),
        (r"re.compile(r'\d+', re.ASCII | re.DOTALL)", 0),
        (r"re.compile(r'[0-9]\S')", 0),
        (r"re.compile(r'\\s')", 0),
    ],
)
def test_a_wide_pattern_is_found(code: str, count: int) -> None:
    assert len(list(lax_patterns(ast.parse(code)))) == count
