from __future__ import annotations

from pathlib import Path

import pytest

from kcli.connectors.jdbc.common_keys import ConnectionSettings
from kcli.connectors.jdbc.identifiers import Quoting, TableName
from kcli.connectors.jdbc.source_validation import connection_errors
from kcli.connectors.jdbc.urls import masked, parse_url
from kcli.formats.connect.errors import ConnectException


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://h:6543/db", ("postgresql", "h", 6543, "db", None, None)),
        ("jdbc:postgresql://h/db?user=u&password=p%26q", ("postgresql", "h", None, "db", "u", "p&q")),
        ("jdbc:mysql://u:p@h:3306/db", ("mysql", "h", 3306, "db", "u", "p")),
        ("jdbc:mariadb://[::1]:3306/", ("mariadb", "::1", 3306, "", None, None)),
        ("jdbc:sqlite:/tmp/a b.db", ("sqlite", "", None, "/tmp/a b.db", None, None)),
        ("jdbc:sqlite::memory:", ("sqlite", "", None, ":memory:", None, None)),
        ("jdbc:oracle:thin:@//h:1521/service", ("oracle", "h", 1521, "", None, None)),
        ("jdbc:oracle:thin:u/p@h:1521:sid", ("oracle", "h", 1521, "sid", "u", "p")),
        (
            "jdbc:sqlserver://h\\inst:1433;databaseName=db;user=u;password=p;",
            ("sqlserver", "h\\inst", 1433, "db", "u", "p"),
        ),
        ("jdbc:db2://h:50000/db:user=u;password=p;", ("db2", "h", 50000, "db", "u", "p")),
        ("postgresql+pg8000://u:p@h:1/db", ("postgresql", "h", 1, "db", "u", "p")),
        ("mysql://h/db", ("mysql", "h", None, "db", None, None)),
    ],
)
def test_parts_of_a_url(url: str, expected: tuple[object, ...]) -> None:
    address = parse_url(url, {})
    assert (
        address.kind, address.host, address.port, address.database, address.user, address.password
    ) == expected  # fmt: skip


def test_options_of_jdbc_drivers_are_translated() -> None:
    postgresql = parse_url(
        "jdbc:postgresql://h/d?ssl=true&ApplicationName=a&currentSchema=s&prepareThreshold=0", {}
    )
    assert postgresql.options == {
        "sslmode": "require",
        "application_name": "a",
        "options": "-c search_path=s",
    }
    assert postgresql.without_effect == ("prepareThreshold",)
    mysql = parse_url("jdbc:mysql://h/d?useSSL=false&connectTimeout=2500", {"socketTimeout": "0"})
    assert mysql.options == {"ssl_disabled": True, "connect_timeout": 2}
    oracle = parse_url("jdbc:oracle:thin:@h:1521/service", {})
    assert oracle.options == {"service_name": "service"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:derby://h/db", "unknown database. Expected one of: jdbc:postgresql"),
        ("jdbc:postgresql:db", "expected //host:port/database"),
        ("jdbc:mysql://h:x/db", "expected a number as the port"),
        ("jdbc:oracle:wrong", "expected a URL such as jdbc:oracle"),
        ("nonsense", "expected a URL such as jdbc:postgresql"),
    ],
)
def test_an_invalid_url_is_explained(url: str, message: str) -> None:
    with pytest.raises(ConnectException) as raised:
        parse_url(url, {})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://h/d?user=u&password=SECRET&x=1",
        "jdbc:sqlserver://h;user=u;PASSWORD=SECRET;x=1",
        "jdbc:mysql://u:SECRET@h/d",
        "jdbc:mysql://(host=h,password=SECRET)/d",
        "postgresql://u:SECRET@h/d",
        "jdbc:oracle:thin:u/SECRET@h:1521:sid",
        "jdbc:postgresql://u:SECRET@SECRET@h/d",
        "jdbc:mysql://h/d?x=1&password=SECRET;SECRET,SECRET)SECRET",
        "jdbc:sqlserver://h;password=SECRET&SECRET,SECRET;x=1",
        "jdbc:db2://h:1/d:user=u;password=SECRET&SECRET;",
        "jdbc:oracle:thin:u/SECRET@SECRET@h:1521:sid",
    ],
)
def test_errors_show_no_password(url: str) -> None:
    assert "SECRET" not in masked(url)
    assert "SECRET" not in repr(parse_url(url, {})) if "(" not in url else True


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+pg8000://h/db", "The Python module pg8000 of the driver is missing"),
        ("mysql://u:SECRET@127.0.0.1:1/db?foo=bar", "the driver refuses an option"),
        ("mysql://127.0.0.1:1/db?connect_timeout=1", "Can't connect to MySQL server"),
        ("jdbc:postgresql://u:SE@SECRET@127.0.0.1:1/db", "connection failed"),
        ("jdbc:mysql://u:SEC/RET@h/db", "expected a number as the port"),
    ],
)
def test_a_url_that_does_not_work_is_one_clear_error(url: str, message: str) -> None:
    pytest.importorskip("psycopg")
    pytest.importorskip("pymysql")
    settings = ConnectionSettings(url, None, None, 1, 0, "", quotes_always=True, properties={})
    ((error,),) = connection_errors(settings).values()
    assert message in error
    assert "SEC" not in error


def test_an_sqlalchemy_url_may_have_numbers(tmp_path: Path) -> None:
    settings = ConnectionSettings(
        f"sqlite:///{tmp_path}/db?timeout=5", None, None, 1, 0, "", quotes_always=True, properties={}
    )
    assert connection_errors(settings) == {}


def test_names_are_quoted_and_parsed() -> None:
    quoting = Quoting('"', '"')
    names = [
        TableName(None, None, "t"), TableName(None, "s", 'odd "name", with. dots'), TableName("c", "s", "t"),
    ]  # fmt: skip
    text = ",".join(map(quoting.table, names))
    assert quoting.parse_list(text) == names
    assert quoting.parse("s.t") == TableName(None, "s", "t")
    assert Quoting('"', '"', always=False).table(names[2]) == "c.s.t"
    assert Quoting("[", "]").quote("a]b") == "[a]]b]"
    assert (names[2].unquoted, str(names[2])) == ("c.s.t", '"c"."s"."t"')
    for invalid in ("", "a.", '"open', "a.b.c.d"):
        with pytest.raises(ConnectException):
            quoting.parse(invalid)
