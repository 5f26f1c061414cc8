"""Statements of the JDBC sink, also for databases that the tests cannot start."""

from __future__ import annotations

import pytest

from kcli.connectors.jdbc.dialects import DIALECTS, MARK, delete, insert, update

UPSERTS = {
    "postgresql": "INSERT INTO T(k,a,b) VALUES(?,?,?) ON CONFLICT (k) DO UPDATE SET a=EXCLUDED.a,b=EXCLUDED.b",
    "mysql": "INSERT INTO T(k,a,b) VALUES(?,?,?) on duplicate key update a=values(a),b=values(b)",
    "sqlite": "INSERT OR REPLACE INTO T(k,a,b) VALUES(?,?,?)",
    "oracle": "merge into T using (select ? k, ? a, ? b FROM dual) incoming on (T.k=incoming.k)"
    " when matched then update set T.a=incoming.a,T.b=incoming.b"
    " when not matched then insert(a,b,k) values(incoming.a,incoming.b,incoming.k)",
    "sqlserver": "merge into T with (HOLDLOCK) AS target using (select ? AS k, ? AS a, ? AS b) AS incoming"
    " on (target.k=incoming.k) when matched then update set target.a=incoming.a,target.b=incoming.b"
    " when not matched then insert(a,b,k) values(incoming.a,incoming.b,incoming.k);",
    "db2": "merge into T using (values(?,?,?)) as DAT(k, a, b) on (T.k=DAT.k)"
    " when matched then update set T.a=DAT.a,T.b=DAT.b"
    " when not matched then insert(a,b,k) values(DAT.a,DAT.b,DAT.k)",
}


@pytest.mark.parametrize("kind", UPSERTS)
def test_upserts_of_each_dialect(kind: str) -> None:
    assert DIALECTS[kind].upsert("T", ["k"], ["a", "b"]).replace(MARK, "?") == UPSERTS[kind]


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("postgresql", "INSERT INTO T(k) VALUES(?) ON CONFLICT (k) DO NOTHING"),
        ("mysql", "INSERT INTO T(k) VALUES(?) on duplicate key update k=values(k)"),
        (
            "oracle",
            (
                "merge into T using (select ? k FROM dual) incoming on (T.k=incoming.k)"
                " when not matched then insert(k) values(incoming.k)"
            ),
        ),
    ],
)
def test_upserts_of_a_table_with_only_its_key(kind: str, statement: str) -> None:
    assert DIALECTS[kind].upsert("T", ["k"], []).replace(MARK, "?") == statement


def test_statements_of_all_dialects() -> None:
    assert insert("T", ["k"], ["a"]).replace(MARK, "?") == "INSERT INTO T(k,a) VALUES(?,?)"
    assert (
        update("T", ["k", "l"], ["a", "b"]).replace(MARK, "?")
        == "UPDATE T SET a = ?, b = ? WHERE k = ? AND l = ?"
    )
    assert delete("T", ["k", "l"]).replace(MARK, "?") == "DELETE FROM T WHERE k = ? AND l = ?"
