"""Expressions to avoid and long sentences do not come back: tidy_counts.json has the counts, and they only go down.

The second half tests the rules by which rigs/house.py counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rigs import house

ROOT = Path(__file__).resolve().parents[2]
PLACES_SHOWN = 30


def test_prose_counts_equal_the_committed_ones() -> None:
    tree = house.House(ROOT)
    committed = json.loads((ROOT / house.COUNTS_FILE).read_text(encoding="utf-8"))
    found = {"expressions": house.expressions(tree), "long_sentences": house.long_sentences(tree)}
    assert found.keys() == committed.keys()
    problems = []
    for measure, places in found.items():
        counts, allowed = house.by_folder(places), committed[measure]
        for folder in sorted(counts.keys() | allowed.keys()):
            count, most = counts.get(folder, 0), allowed.get(folder, 0)
            if count > most:
                here = [str(place) for place in places if place.folder == folder]
                shown = "\n  ".join(here[:PLACES_SHOWN] + ["…"] * (len(here) > PLACES_SHOWN))
                problems.append(f"{measure} in {folder}: {count}, at most {most} allowed\n  {shown}")
            elif count < most:
                problems.append(
                    f"{measure} in {folder}: {count} now; lower the {most} in {house.COUNTS_FILE}"
                )
    advice = "after a sweep or a move between folders run: PYTHONPATH=tests python -m rigs.house --update"
    assert not problems, "\n".join([*problems, advice])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The root of an empty source tree."""
    (tmp_path / "tests" / "rigs").mkdir(parents=True)
    return tmp_path


def write(tree: Path, path: str, text: str) -> None:
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def lines(places: list[Any]) -> list[tuple[str, int]]:
    return [(place.path, place.line) for place in places]


def test_update_lowers_counts_and_refuses_a_rise(tree: Path) -> None:
    write(tree, "kcli/a/one.py", "# nobody\n# nobody\n")
    assert house.main(["--tree", str(tree), "--update"]) == 0
    write(tree, "kcli/a/one.py", "# nobody\n")
    write(tree, "kcli/b/one.py", "# nobody\n")
    assert house.main(["--tree", str(tree), "--update"]) == 0
    counts = json.loads((tree / house.COUNTS_FILE).read_text(encoding="utf-8"))
    assert counts == {"expressions": {"kcli/a": 1, "kcli/b": 1}, "long_sentences": {}}
    write(tree, "docs/page.md", "Whoever.\n")
    assert house.main(["--tree", str(tree), "--update"]) == 1
    assert json.loads((tree / house.COUNTS_FILE).read_text(encoding="utf-8")) == counts


def test_expressions_count_in_docstrings_comments_strings_and_pages(tree: Path) -> None:
    source = '''"""Begins anew."""
X = 1  # Nobody
# All but
# for one.
SHOWN = f"{X} is " "meant"
'''
    write(tree, "kcli/a.py", source)
    write(tree, "docs/a.md", "It starts\nwith a\nword.\n")
    found = [(place.path, place.line, place.words) for place in house.expressions(house.House(tree))]
    assert sorted(found) == [
        ("docs/a.md", 2, "with a word (page)"),
        ("kcli/a.py", 1, "anew (docstring)"),
        ("kcli/a.py", 2, "Nobody (comment)"),
        ("kcli/a.py", 3, "but for (comment)"),
        ("kcli/a.py", 5, "is meant (string)"),
    ]


def test_code_is_no_expression(tree: Path) -> None:
    write(tree, "kcli/a.py", 'nobody = 1\n"""Empty where it is None."""\nif nobody is None:\n    pass\n')
    assert house.expressions(house.House(tree)) == []


def test_names_of_tests_count_and_their_strings_do_not(tree: Path) -> None:
    write(tree, "tests/unit/test_a.py", 'def test_begins_anew():\n    assert "nobody"\n')
    write(tree, "tests/scenario/made_anew.txt", "> topic t 1\n")
    write(tree, "tests/golden/recorded.txt", "nobody\n")
    assert sorted(lines(house.expressions(house.House(tree)))) == [
        ("tests/scenario/made_anew.txt", 0),
        ("tests/unit/test_a.py", 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One two. Three!\nFour\nfive?", [2, 1, 2]),
        ("One, e.g. two, of 4.1 three.", [6]),
        ("One `two three. four` five", [3]),
        ("One https://example.org/a.b?c [two three](four.md).", [4]),
        ("Takes one, two, three, four and five.", [2]),
        ("One\n\n    code code\n\ntwo", [1, 1]),
        ("- one\n  two\n- three\n\n  four", [2, 1, 1]),
        ("# Heading\n\n| a | table |\n\n```\ncode\n```\nOne.", [1]),
        ("One.\n\n        Indented as in a class: not code.", [1, 7]),
    ],
)
def test_sentences_are_cut_and_counted(text: str, words: list[int]) -> None:
    assert [count for _, _, count in house.sentences(text)] == words


def test_sentences_over_35_words_are_found_in_pages_and_docstrings(tree: Path) -> None:
    long = "word " * 36
    write(tree, "docs/a.md", f"Short.\n\nShort. {'word ' * 35}.\nAnd {long}\n")
    write(tree, "CHANGELOG.md", long)
    write(tree, "kcli/a.py", f'def a():\n    """Short.\n\n    {long}\n    """\n# {long}\n')
    assert lines(house.long_sentences(house.House(tree))) == [("docs/a.md", 4), ("kcli/a.py", 4)]


def test_import_circles_are_counted_by_when_the_import_runs(tree: Path) -> None:
    write(tree, "kcli/__init__.py", "")
    write(tree, "kcli/a.py", "from kcli import b\nimport kcli.d\n")
    write(tree, "kcli/b.py", "def late():\n    from kcli.a import x\n")
    write(tree, "kcli/c/__init__.py", "from . import e\n")
    write(tree, "kcli/c/e.py", "if TYPE_CHECKING:\n    from .. import c\nelse:\n    c = None\n")
    write(tree, "kcli/d.py", "")
    found = house.House(tree)
    assert house.import_circles(found) == [("kcli.a", "kcli.b"), ("kcli.c", "kcli.c.e")]
    assert house.import_circles(found, ("import", "lazy")) == [("kcli.a", "kcli.b")]
    assert house.import_circles(found, ("import",)) == []


def test_largest_folder_leaves_out_folders_with_a_file_per_api(tree: Path) -> None:
    for name in ("handlers/a", "handlers/b", "handlers/c", "x/__init__", "x/a", "x/b", "y/a"):
        write(tree, f"kcli/{name}.py", "")
    assert house.largest_folder(house.House(tree)) == ("kcli/x", 2)


def test_declarations_of_topic_partition_are_classes_and_assignments(tree: Path) -> None:
    source = (
        "from a import TopicPartition\n_TopicPartition = tuple\nclass A:\n    class TopicPartition: ...\n"
    )
    write(tree, "kcli/a.py", source)
    write(tree, "kcli/messages/a.py", "class TopicPartition: ...\n")
    assert lines(house.topic_partitions(house.House(tree))) == [("kcli/a.py", 2), ("kcli/a.py", 4)]


def test_a_name_for_a_pair_of_topic_and_number_is_a_declaration_too(tree: Path) -> None:
    write(
        tree,
        "kcli/a.py",
        "Key = tuple[str, int]\nPlace: TypeAlias = tuple[str, int]\nPair = tuple[int, int]\n",
    )
    assert lines(house.topic_partitions(house.House(tree))) == [("kcli/a.py", 1), ("kcli/a.py", 2)]


def test_host_port_parsers_split_at_the_last_colon_and_name_a_port(tree: Path) -> None:
    write(tree, "kcli/a.py", 'def a(text):\n    host, _, port = text.rpartition(":")\n')
    write(
        tree,
        "kcli/b.py",
        'import re\nHOST_PORT = re.compile(r"(.+):(\\d+)$")\nPATH = re.compile(r":(\\d+)/")\n',
    )
    write(tree, "kcli/c.py", "import b\ndef c(text):\n    return b.HOST_PORT.match(text)\n")
    write(tree, "kcli/d.py", 'def d(text):\n    host, _, count = text.rpartition(":")\n')
    assert lines(house.host_port_parsers(house.House(tree))) == [("kcli/a.py", 1), ("kcli/c.py", 2)]


def test_uses_of_any_are_names_attributes_and_quoted_types(tree: Path) -> None:
    source = (
        "import typing\nfrom typing import Any\n"
        'def a(b: Any, c: "list[Any]") -> typing.Any:\n    return "Any time"\n'
    )
    write(tree, "kcli/a.py", source)
    assert len(house.uses_of_any(house.House(tree))) == 3


@pytest.mark.parametrize(
    ("answer", "count"),
    [("", 1), (" -> Any", 1), (" -> 'object'", 1), (" -> Awaitable[Any]", 1), (" -> Answer", 0)],
)
def test_handlers_declare_their_answer(tree: Path, answer: str, count: int) -> None:
    write(tree, "kcli/server/handlers/a.py", f"async def handle(request){answer}: ...\n")
    write(tree, "kcli/server/handlers/helper.py", "def help(): ...\n")
    assert len(house.untyped_handlers(house.House(tree))) == count


def test_a_function_of_two_colours_returns_a_value_or_an_awaitable_of_it(tree: Path) -> None:
    source = (
        "def both() -> str | Awaitable[str]: ...\n"
        "def three() -> int | str | asyncio.Future[int]: ...\n"
        "async def one() -> str | int: ...\n"
        "def event() -> Awaitable[None] | None: ...\n"
        "def later() -> Awaitable[str] | bytes: ...\n"
    )
    write(tree, "kcli/colours.py", source)
    assert lines(house.two_colours(house.House(tree))) == [("kcli/colours.py", 1), ("kcli/colours.py", 2)]


def test_twins_and_constants_of_turns_are_found(tree: Path) -> None:
    source = (
        "PARTS_PER_TURN = PER_TURN = 5\nTURNS_PER_DAY = 5\n"
        "def read(): ...\ndef read_in_turns(): ...\ndef _read_steps(): ...\ndef write_steps(): ...\n"
    )
    write(tree, "kcli/turns.py", source)
    checkout = house.House(tree)
    assert [place.words for place in house.twins(checkout)] == ["read_in_turns", "_read_steps"]
    assert [place.words for place in house.per_turn_constants(checkout)] == ["PARTS_PER_TURN", "PER_TURN"]


def test_builders_of_requests_and_fields_of_ports_are_counted(tree: Path) -> None:
    write(
        tree,
        "kcli/a.py",
        "from kcli.raft.node import FetchRequest\n"
        "FetchRequest()\nmessages.ProduceRequest()\n"
        "@dataclass\nclass NodePorts:\n    clock: int\n    def one(self): ...\n"
        "@dataclass\nclass Ports(NodePorts):\n    disk: int\n",
    )
    found = house.House(tree)
    assert lines(house.request_builders(found)) == [("kcli/a.py", 3)]
    assert house.fields_of_ports(found) == {"kcli/a.py NodePorts": 1, "kcli/a.py Ports": 2}
    assert house.methods_of_classes(found) == {"kcli/a.py NodePorts": 1, "kcli/a.py Ports": 0}
