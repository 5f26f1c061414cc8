"""`kcli schemas` on real registries: each command, with right and wrong arguments, and with registries that have fewer
features."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.cli.tools.schemas.connection import URL_VARIABLE
from kcli.formats.registry.catalog import ALL_CONTEXTS
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.errors import RegistryRefused
from kcli.formats.registry.settings import URL, RegistrySettings
from rigs.registry_thread import registries, with_fewer_features

ID = '{"name":"id","type":"int"}'
ORDER = f'{{"type":"record","name":"Order","fields":[{ID}]}}'
NO_DEFAULT = f'{{"type":"record","name":"Order","fields":[{ID},{{"name":"note","type":"string"}}]}}'
DEFAULT = NO_DEFAULT.replace('"string"}', '"string","default":""}')
LIST = '{"type":"array","items":"Order"}'
REASON = "The field 'note' at path '/fields/1' in the new schema has no default value and is missing in the old schema"


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Tool = Callable[[str], Done]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with registries(tmp_path_factory.mktemp("registries"), {}, {}) as started:
        yield started.urls


@pytest.fixture
def tool(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Tool]:
    """Runs the tool in a directory with some schemas. The registries are empty before and after a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL_VARIABLE, urls[0])
    for name, text in {
        "order.avsc": ORDER,
        "no-default.avsc": NO_DEFAULT,
        "default.avsc": DEFAULT,
        "list.avsc": LIST,
        "open.json": '{"type":"object","properties":{"a":{"type":"string"}}}',
        "more.json": '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}',
        "p.proto": 'syntax = "proto3"; message A { int32 a = 1; }',
        "p2.proto": 'syntax = "proto3"; message A { string a = 1; }',
    }.items():
        (tmp_path / name).write_text(text)

    def call(line: str) -> Done:
        capsys.readouterr()
        code = run(["schemas", *shlex.split(line)])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    yield call
    for url in urls:
        asyncio.run(clear(RegistryClient(RegistrySettings.of({URL: url}))))


async def clear(client: RegistryClient) -> None:
    """Deletes all subjects, those that others need last."""
    while subjects := await client.subjects(prefix=ALL_CONTEXTS, deleted=True):
        for subject in subjects:
            for request in (
                client.delete_mode(subject),
                client.delete_subject(subject),
                client.delete_subject(subject, permanent=True),
            ):
                with contextlib.suppress(RegistryRefused):  # nothing to delete, or another schema needs it
                    await request


def test_a_schema_is_registered_once(tool: Tool) -> None:
    assert tool("list").out == "There are no subjects.\n"
    [before, note] = tool("put order.avsc --dry-run").out.splitlines()
    assert before == "order: would be registered as version 1, a new id", (
        "the ids of deleted schemas are unknown"
    )
    assert note == "Nothing was changed, because of --dry-run."
    assert tool("put order.avsc").code == 0
    [before, _] = tool("put default.avsc --dry-run").out.splitlines()
    done = tool("put default.avsc")
    assert (done.code, before.replace("would be registered", "registered")) == (0, done.out.strip())
    again = tool("put order.avsc --output json")
    assert (again.code, again.rows[0]["change"], again.rows[0]["version"]) == (0, "unchanged", 1)
    same = tool("put order.avsc --subject other --dry-run --output json").rows[0]
    assert (same["version"], same["id"]) == (1, again.rows[0]["id"]), "other subjects share the id"
    assert tool("get order").out == f"{ORDER}\n"
    [row] = tool("get order latest --output json").rows
    assert (row["subject"], row["version"], row["type"], row["schema"]) == ("order", 1, "AVRO", ORDER)
    assert tool(f"get --id {row['id']}").out == tool(f"get --guid {row['guid']} ").out == f"{ORDER}\n"
    assert tool("get order --pretty").out == f"{json.dumps(json.loads(ORDER), indent=2)}\n"


def test_an_incompatible_schema_has_reasons_and_a_cure(tool: Tool) -> None:
    tool("put order.avsc")
    expected = (
        "no-default.avsc: not compatible with order (level BACKWARD)\n"
        "  version 1: consumers with the new schema cannot read records of version 1\n"
        f"    {REASON}\n"
        "      Give the new field a default.\n"
    )
    for line in ("check", "put"):
        done = tool(f"{line} no-default.avsc --subject order")
        assert (done.code, done.out) == (1, expected), line
    assert tool("put no-default.avsc --subject order --dry-run").code == 1
    done = tool("check default.avsc --subject order")
    assert (done.code, done.out) == (0, "default.avsc: compatible with order (level BACKWARD)\n")
    [row] = tool("check no-default.avsc --subject order --output json").rows
    assert (row["against"], row["kind"], row["reason"]) == (
        "version 1",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        REASON,
    )


def test_every_version_that_breaks_is_named(tool: Tool) -> None:
    tool("put order.avsc")
    tool("put default.avsc --subject order")
    Path("changed.avsc").write_text(ORDER.replace('"int"', '"string"'))
    tool("config order --level FULL_TRANSITIVE")
    rows = tool("check changed.avsc --subject order --output json").rows
    assert [(row["against"], row["kind"], row["broken"].split(" cannot")[0]) for row in rows] == [
        ("version 2", "TYPE_MISMATCH", "consumers with version 2"),
        ("version 2", "TYPE_MISMATCH", "consumers with the new schema"),
        ("version 1", "TYPE_MISMATCH", "consumers with version 1"),
        ("version 1", "TYPE_MISMATCH", "consumers with the new schema"),
    ]
    for line in ("--version 1", "--version 1 --level FULL"):
        rows = tool(f"check changed.avsc --subject order --output json {line}").rows
        assert {row["against"] for row in rows} == {"version 1"}, line
    assert tool("check changed.avsc --subject order --level NONE").code == 0


def test_a_new_property_in_an_open_object_has_a_cure(tool: Tool) -> None:
    tool("put open.json")
    done = tool("check more.json --subject open")
    assert done.code == 1
    assert "--policy LENIENT" in done.out
    assert '"additionalProperties": false' in done.out
    assert tool("check more.json --subject open --policy LENIENT").code == 0
    assert tool("config open --policy LENIENT").code == 0
    assert tool("check more.json --subject open").code == 0


def test_errors_have_another_exit_code_than_incompatible_schemas(tool: Tool) -> None:
    Path("bad.avsc").write_text('{"type":"recor"}')
    done = tool("check bad.avsc order.avsc")
    assert done.code == 2
    assert "bad.avsc: Invalid schema of type AVRO" in done.err
    assert "order.avsc: compatible with order" in done.out, "the other files are checked nevertheless"
    assert tool("check bad.avsc --against order.avsc").code == 2
    for line, text in (
        ("check", "expected at least one file"),
        ("check missing.avsc", "missing.avsc: No such file"),
        ("check order.txt", "order.txt"),
        ("check order.avsc --subject a --reference x", "--reference x: expected name=subject:version"),
        ("check order.avsc more.json --subject a", "--subject: expected one file"),
        ("put", "expected one file"),
        ("get", "expected a subject"),
        ("get nothing", "Subject 'nothing' not found."),
        ("get order x", "x: expected a version"),
        ("get --guid x", "--guid x: expected a guid"),
        ("diff", "expected a subject"),
        ("delete nothing", "Subject 'nothing' not found."),
        ("list --context team", "--context team: expected a name such as .team"),
        ("list --registry ftp://h", "expected the URL of a schema registry"),
        ("list --timeout 0", "expected a positive number"),
        ("import .", "has no registry.json"),
        ("mode order --set WRITE", "WRITE"),
        ("lst", "invalid choice: 'lst'"),
    ):
        done = tool(line)
        assert (done.code, text in done.err) == (2, True), (line, done)


def test_files_are_compared_without_a_registry(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:1")
    done = tool("check p2.proto --against p.proto --level FULL")
    assert done.code == 1
    assert "p.proto: consumers with p.proto cannot read records of the new schema" in done.out
    assert tool("check default.avsc --against order.avsc").code == 0
    assert tool("check list.avsc --against list.avsc --reference Order=order.avsc").code == 0
    for folder, text in (("old", ORDER), ("new", NO_DEFAULT)):
        Path(folder, "shop").mkdir(parents=True)
        Path(folder, "shop", "order.avsc").write_text(text)
    Path("new/fresh.avsc").write_text(ORDER)
    done = tool("check new --against old")
    assert (done.code, done.out.splitlines()[0]) == (
        1,
        "new/fresh.avsc: compatible with fresh, because there is no earlier schema",
    )
    assert (
        "old/shop/order.avsc: consumers with the new schema cannot read records of old/shop/order.avsc"
        in done.out
    )


def test_two_versions_differ_by_lines(tool: Tool) -> None:
    tool("put order.avsc")
    tool("put default.avsc --subject order")
    done = tool("diff order")
    assert done.code == 1
    assert done.out.startswith("--- order version 1 (id ")
    assert '+      "name": "note",\n' in done.out
    assert tool("diff order 2 2").out == "order: the versions 2 and 2 are equal\n"
    assert tool("diff order 1 --output json").rows[0] == {"change": " ", "line": "{"}


def test_lists_have_versions_levels_contexts_and_deleted_versions(tool: Tool) -> None:
    tool("put order.avsc")
    tool("put default.avsc --subject order")
    tool("put order.avsc --subject :.team:order")
    tool("config order --level FULL")
    tool("delete order 2 --yes")
    rows = tool("list --deleted --versions --output json").rows
    assert [(row["subject"], row["version"], row["level"], row["deleted"]) for row in rows] == [
        (":.team:order", 1, "BACKWARD", False),
        ("order", 1, "FULL", False),
        ("order", 2, "FULL", True),
    ]
    assert [row["version"] for row in tool("list --prefix ord --context . --output json").rows] == [1]
    assert [row["subject"] for row in tool("list --context .team --output json").rows] == [":.team:order"]
    assert tool("list --prefix x").out == "There are no such subjects.\n"
    assert tool("config order --delete").out == "compatibilityLevel: BACKWARD\n"


def test_a_version_that_others_need_stays(tool: Tool) -> None:
    tool("put order.avsc")
    assert tool("put list.avsc --reference Order=order:latest").code == 0
    for line in ("delete order", "delete order 1", "delete order --permanent", "delete order --dry-run"):
        done = tool(line)
        assert (done.code, done.err) == (
            2,
            "order cannot be deleted, because version 1 is used by list version 1. Delete these first.\n",
        ), line
    assert tool("delete list --dry-run").out.startswith("list version 1 would be deleted\n")
    assert tool("delete list").out == "list version 1 is deleted\n"
    assert tool("delete order --permanent").code == 2, "a schema that was deleted softly needs it too"
    assert tool("list --output json").rows[0]["subject"] == "order", "nothing was deleted"
    assert tool("delete list --permanent").out == "list version 1 is deleted permanently\n"
    assert tool("delete order 1 --permanent").code == 0
    assert tool("list --deleted").out == "There are no subjects.\n"


def test_a_schema_is_written_with_all_that_it_needs(tool: Tool) -> None:
    tool("put order.avsc")
    tool("put list.avsc --reference Order=order:1")
    assert tool("get list --with-references needed").code == 0
    assert Path("needed/order/1.avsc").read_text() == ORDER
    assert tool("check list.avsc --against needed --reference Order=order.avsc").code == 0
    again = tool("get list --with-references needed")
    assert (again.code, again.err) == (2, "needed has an export already: name another directory\n")


def _fill(tool: Tool) -> None:
    """Puts versions with references, contexts, deleted versions, configs and modes into the first registry."""
    tool("put order.avsc --subject z/order")
    tool("put default.avsc --subject z/order")
    tool("put list.avsc --reference Order=z/order:1")
    tool("put open.json")
    tool("put p.proto --subject :.team:p")
    tool("delete z/order 2")
    tool("config z/order --level FULL")
    tool("config :.team: --level NONE")
    tool("mode open --set READONLY")


def test_an_export_makes_an_equal_registry(tool: Tool, urls: list[str]) -> None:
    _fill(tool)
    done = tool("export dump")
    assert (done.code, done.out.splitlines()[-1]) == (0, "dump: 4 subjects")
    assert Path("dump/z%2Forder/2.avsc").read_text() == DEFAULT
    there = f"--registry {urls[1]}"
    assert tool(f"import dump --dry-run {there}").code == 0
    assert tool(f"list --deleted {there}").out == "There are no subjects.\n"
    done = tool(f"import dump --settings {there}")
    assert (done.code, done.err) == (0, "")
    equal = tool(f"diff --deleted --to-registry {urls[1]}")
    assert (equal.code, equal.out) == (0, "There is no difference: 5 versions are equal.\n")
    assert tool(f"import dump {there}").out == "0 versions were imported, and 5 were there already.\n"
    assert tool(f"export again {there}").code == 0
    for name in ("registry.json", "z%2Forder/subject.json", "list/subject.json"):
        one, two = (json.loads(Path(folder, name).read_text()) for folder in ("dump", "again"))
        for version in (*one.get("versions", ()), *two.get("versions", ())):
            version.pop("ts", None)
        assert one == two, name
    tool("mode open --delete")
    tool(f"config :.team: --delete {there}")
    tool("config :.team: --delete")


def test_a_part_of_a_registry_is_added_to_an_export(tool: Tool) -> None:
    tool("put order.avsc")
    tool("put open.json --subject :.team:open")
    tool("config :.team: --level FULL")
    tool("export dump")
    scopes = Path("dump/registry.json").read_text()
    tool("put default.avsc --subject order")
    done = tool("export dump --prefix order --context .")
    assert (done.code, done.err) == (
        0,
        "WARN dump also has subjects that were not exported now: :.team:open\n",
    )
    assert Path("dump/registry.json").read_text() == scopes
    assert Path("dump/order/2.avsc").read_text() == DEFAULT
    Path("dump/order/subject.json").write_text('{"subject":"ORDER"}')
    done = tool("export dump")
    assert (done.code, done.err) == (2, "dump/order has the subject ORDER already, and not order\n")
    tool("config :.team: --delete")


def test_an_import_continues_after_an_interruption(tool: Tool, urls: list[str]) -> None:
    _fill(tool)
    tool("export dump")
    there = f"--registry {urls[1]}"
    tool(f"import dump --prefix z/ {there}")
    tool(f"mode z/order --set IMPORT --force {there}")
    done = tool(f"import dump {there}")
    assert "3 versions were imported, and 2 were there already." in done.out
    assert tool(f"mode z/order {there}").out == "mode: READWRITE\n", (
        "the mode of the interrupted import has ended"
    )
    assert "WARN :.team: has another config" in done.err
    assert tool(f"diff --deleted --no-settings --to-registry {urls[1]}").code == 0
    tool("mode open --delete")
    tool("config :.team: --delete")


def test_an_import_never_replaces_other_schemas(tool: Tool, urls: list[str]) -> None:
    tool("put order.avsc")
    tool("put open.json")
    tool("export dump")
    there = f"--registry {urls[1]}"
    tool(f"put p.proto {there}")
    tool(f"put p2.proto --subject open {there}")
    taken = tool(f"get p --output json {there}").rows[0]["id"]
    file = Path("dump/order/subject.json")
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "versions": [{**whole["versions"][0], "id": taken}]}))
    done = tool(f"import dump {there}")
    assert (done.code, done.err) == (1, "")
    assert f"id {taken}: conflict: the id belongs to another schema, p version 1\n" in done.out
    assert "open version 1, id " in done.out
    assert "0 of 2 versions can be imported." in tool(f"import dump --dry-run {there}").out
    assert [row["subject"] for row in tool(f"list --output json {there}").rows] == ["open", "p"]
    difference = tool(f"diff --to-registry {urls[1]}")
    assert difference.code == 1
    assert "order version 1: only here\n" in difference.out
    assert "open version 1: type is JSON here, and PROTOBUF there\n" in difference.out


def test_damaged_exports_are_refused(tool: Tool) -> None:
    tool("put order.avsc")
    tool("export dump")
    file = Path("dump/order/subject.json")
    whole = json.loads(file.read_text())
    version = whole["versions"][0]
    for content, text in (
        ("[", "subject.json"),
        ("[]", "expected an object"),
        (json.dumps({**whole, "subject": ""}), "the member is missing"),
        (json.dumps({**whole, "versions": [version, version]}), "not in order"),
        (json.dumps({**whole, "versions": [{**version, "version": 9}]}), "9.avsc"),
        (json.dumps({**whole, "versions": [{**version, "schemaType": "../../x"}]}), "1.txt"),
    ):
        file.write_text(content)
        done = tool("import dump")
        assert (done.code, text in done.err) == (2, True), (content, done.err)
    loop = {"name": "Order", "subject": "order", "version": 1}
    file.write_text(json.dumps({**whole, "versions": [{**version, "references": [loop]}]}))
    assert "refers to itself" in tool("import dump").err
    Path("dump/registry.json").write_text('{"format":2}')
    assert "does not know the format" in tool("import dump").err


def test_registries_with_fewer_features_get_clear_sentences(tool: Tool, urls: list[str]) -> None:
    tool("put order.avsc")
    tool("put default.avsc --subject order")
    tool("export dump")
    missing = (
        *("PUT /mode", "DELETE /mode", "GET /contexts", "GET /schemas$", "GET /schemas/guids"),
        "POST /compatibility/subjects/order/versions$",
    )
    with with_fewer_features(urls[0], *missing) as url:
        assert [row["version"] for row in tool(f"list --versions --output json --registry {url}").rows] == [
            1,
            2,
        ]
        Path("changed.avsc").write_text(ORDER.replace('"int"', '"string"'))
        assert "version 2: consumers" in tool(f"check changed.avsc --subject order --registry {url}").out
        for line, text in (
            (f"get --guid {'0' * 32}", "has no schemas by guid"),
            ("mode order --set READONLY", "has no resource that changes modes"),
        ):
            done = tool(f"{line} --registry {url}")
            assert (done.code, text in done.err) == (2, True), done
        assert tool(f"import dump --registry {url}").code == 0, "nothing is missing"
    with with_fewer_features(urls[1], *missing) as url:
        done = tool(f"import dump --registry {url}")
        assert (done.code, "has no mode IMPORT. It cannot take schemas with their ids" in done.err) == (
            2,
            True,
        )
