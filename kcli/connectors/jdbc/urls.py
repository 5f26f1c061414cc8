"""The address of a database: `connection.url` in JDBC's or in SQLAlchemy's form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import natural, parse_boolean

_SCHEME = re.compile(r"jdbc:([a-z0-9]+):(.*)", re.DOTALL)
_AUTHORITY = re.compile(
    r"//(?:([^/?;]*)@)?(\[[^\]]*\]|[^:/?;,\\]*)(?:\\([^:;/?]*))?(?::([^/?;,]*))?(?=[/?;:]|$)"
)
_ORACLE = re.compile(r"(?:thin|oci):(?:([^/@]*)/(.*))?@(?://)?([^:/@]+)(?::([^:/]*))?(?:([:/])(.+))?")
_PASSWORD_PARAMETER = re.compile(
    r"([?&][^=&]*password[^=&]*=)[^&]*|([;:][^=;?&]*password[^=;?&]*=)[^;]*|([,(][^=,?&;)]*password[^=,?&;)]*=)[^,)]*",
    re.I,
)
"""The parameters of the three forms of URLs: `?a=b&c=d`, `;a=b;c=d` and `(a=b,c=d)`."""
_ORACLE_PASSWORD = re.compile(r"(:(?:thin|oci):[^/@]*/).*@")
_LOGIN = re.compile(r"//[^/@:]*:.*@", re.DOTALL)
"""A user and a password, up to the last @, because a password may have another one."""
_Translation = Callable[[str], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a database. `database` is a path for SQLite. `options` are options of the Python driver."""

    kind: str
    """The name of a dialect, such as `postgresql`."""
    host: str = ""
    port: int | None = None
    database: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, object] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()
    """Parameters of the JDBC driver that have no equivalent in the Python driver."""
    driver: str | None = None
    """The driver of an SQLAlchemy URL, such as `pg8000`. None stands for the usual driver of the dialect."""
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """The parameters of an SQLAlchemy URL, which SQLAlchemy converts for the driver."""

    def __str__(self) -> str:
        place = f"//{self.host}{'' if self.port is None else f':{self.port}'}/" if self.host else ""
        return f"{self.kind}:{place}{self.database}"


def parse_url(text: str, properties: Mapping[str, str]) -> Address:
    """Reads a URL. `properties` are the keys `connection.…` that the connector does not know itself.

    Raises ConnectException for a URL of another form or for an unknown database.
    """
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _sqlalchemy_address(text, properties)
    kind, rest = match.groups()
    reader = _READERS.get(kind)
    if reader is None:
        known = ", ".join(f"jdbc:{name}" for name in _READERS)
        raise ConnectException(f"{masked(text)}: unknown database. Expected one of: {known}")
    return reader(kind, rest, properties, masked(text))


def masked(text: str) -> str:
    """The URL without its passwords, for logs and errors."""
    without_oracle = _ORACLE_PASSWORD.sub(r"\1****@", text)
    without_parameters = _PASSWORD_PARAMETER.sub(
        lambda match: f"{match[1] or match[2] or match[3]}****", without_oracle
    )
    return _LOGIN.sub("//***:***@", without_parameters)


def _sqlalchemy_address(text: str, properties: Mapping[str, str]) -> Address:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConnectException(
            f"{masked(text)}: expected a URL such as jdbc:postgresql://host:5432/database"
        ) from None
    kind, _, driver = url.drivername.partition("+")
    kind = {"postgres": "postgresql"}.get(kind, kind)
    return Address(
        kind, url.host or "", url.port, url.database or "", url.username,
        None if url.password is None else str(url.password), driver=driver or None,
        query={**url.query, **properties},
    )  # fmt: skip


def _with_query(kind: str, rest: str, properties: Mapping[str, str], shown: str) -> Address:
    """`//host:port/database?key=value&…` of PostgreSQL, MySQL and MariaDB."""
    place, _, query = rest.partition("?")
    login, host, _, port, end = _authority(place, shown)
    parameters = {**dict(parse_qsl(query, keep_blank_values=True)), **properties}
    user, password = _login(login, parameters)
    options, without_effect = _options(kind, parameters)
    database = unquote(place[end:].removeprefix("/"))
    return Address(kind, host or "localhost", port, database, user, password, options, without_effect)


def _with_semicolons(kind: str, rest: str, properties: Mapping[str, str], shown: str) -> Address:
    """`//host\\instance:port;key=value;…` of SQL Server, and `//host:port/database:key=value;…` of DB2."""
    login, host, instance, port, end = _authority(rest, shown)
    tail = rest[end:]
    database, _, tail = tail[1:].partition(":") if kind == "db2" and tail.startswith("/") else ("", "", tail)
    pairs = (pair.partition("=") for pair in tail.split(";") if pair)
    parameters = {key: value for key, _, value in pairs} | dict(properties)
    lower = {key.lower(): key for key in parameters}
    for name in ("databasename", "database"):
        database = parameters.pop(lower.get(name, ""), "") or database
    instance = parameters.pop(lower.get("instancename", ""), "") or instance
    for name in ("user", "username"):
        if name in lower:
            parameters["user"] = parameters.pop(lower[name])
    user, password = _login(login, parameters)
    options, without_effect = _options(kind, parameters)
    host = f"{host}\\{instance}" if instance else host
    return Address(kind, host or "localhost", port, database, user, password, options, without_effect)


def _oracle(kind: str, rest: str, properties: Mapping[str, str], shown: str) -> Address:
    """`thin:@//host:port/service`, `thin:@host:port/service` and `thin:@host:port:sid`."""
    match = _ORACLE.fullmatch(rest.partition("?")[0])
    if match is None:
        raise ConnectException(f"{shown}: expected a URL such as jdbc:oracle:thin:@//host:1521/service")
    user, password, host, port, separator, name = match.groups()
    parameters = dict(properties)
    given_user, given_password = _login(None, parameters)
    options: dict[str, object] = {}
    if name and separator == "/":
        options["service_name"] = name
    return Address(
        kind, host, _port(port, shown), name if name and separator == ":" else "",
        given_user or user or None, given_password or password or None, options, tuple(parameters),
    )  # fmt: skip


def _sqlite(kind: str, rest: str, properties: Mapping[str, str], shown: str) -> Address:
    path, _, query = rest.partition("?")
    parameters = {**dict(parse_qsl(query)), **properties}
    options, without_effect = _options(kind, parameters)
    return Address(kind, database=path.removeprefix("file:"), options=options, without_effect=without_effect)


_READERS = {
    "postgresql": _with_query,
    "mysql": _with_query,
    "mariadb": _with_query,
    "sqlite": _sqlite,
    "sqlserver": _with_semicolons,
    "oracle": _oracle,
    "db2": _with_semicolons,
}


def _authority(text: str, shown: str) -> tuple[str | None, str, str, int | None, int]:
    """Login, host, instance and port at the begin of a text, and the position of their end."""
    match = _AUTHORITY.match(text)
    if match is None:
        raise ConnectException(f"{shown}: expected //host:port/database after the name of the database")
    login, host, instance, port = match.groups()
    return login, host.removeprefix("[").removesuffix("]"), instance or "", _port(port, shown), match.end()


def _port(text: str | None, shown: str) -> int | None:
    if not text:
        return None
    port = natural(text)
    if port is None:
        raise ConnectException(f"{shown}: expected a number as the port")  # it may be a part of a password
    return port


def _login(login: str | None, parameters: dict[str, str]) -> tuple[str | None, str | None]:
    """The user and the password, of which the parameters take precedence over those before an @."""
    user, separator, password = (login or "").partition(":")
    found_user = parameters.pop("user", None) or unquote(user) or None
    return found_user, parameters.pop("password", None) or (unquote(password) if separator else None)


def _options(kind: str, parameters: Mapping[str, str]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Translates parameters of the JDBC driver, and returns the names of those that have no equivalent."""
    options: dict[str, object] = {}
    without_effect = []
    for name, value in parameters.items():
        translated = _TRANSLATED.get(kind, {}).get(name)
        if translated is None:
            without_effect.append(name)
        else:
            options.update(translated(value))
    return options, tuple(without_effect)


def _seconds(name: str, milliseconds: bool = False) -> _Translation:
    """A number of seconds for the Python driver. 0 means no limit in JDBC, so it sets nothing."""

    def translate(value: str) -> Mapping[str, object]:
        number = natural(value)
        return {name: max(1, number // (1000 if milliseconds else 1))} if number else {}

    return translate


def _same(name: str) -> _Translation:
    return lambda value: {name: value}


def _mysql_tls(value: str) -> Mapping[str, object]:
    match value.upper():
        case "DISABLED" | "DISABLE" | "FALSE":
            return {"ssl_disabled": True}
        case "PREFERRED":
            return {}
        case "REQUIRED" | "TRUST" | "TRUE":
            return {"ssl": {"verify_mode": False, "check_hostname": False}}
        case "VERIFY_CA" | "VERIFY-CA":
            return {"ssl": {"verify_mode": True, "check_hostname": False}}
        case _:
            return {"ssl": {"verify_mode": True, "check_hostname": True}}


_OF_MYSQL: Mapping[str, _Translation] = {
    "connectTimeout": _seconds("connect_timeout", milliseconds=True),
    "socketTimeout": _seconds("read_timeout", milliseconds=True),
    "useSSL": _mysql_tls,
    "requireSSL": _mysql_tls,
    "sslMode": _mysql_tls,
    "localSocket": _same("unix_socket"),
}
_TRANSLATED: Mapping[str, Mapping[str, _Translation]] = {
    "postgresql": {
        **{
            name: _same(name)
            for name in ("sslmode", "sslcert", "sslkey", "sslrootcert", "options", "application_name", "host")
        },
        "ssl": lambda value: {"sslmode": "require"} if parse_boolean(value) else {},
        "ApplicationName": _same("application_name"),
        "connectTimeout": _seconds("connect_timeout"),
        "loginTimeout": _seconds("connect_timeout"),
        "currentSchema": lambda value: {"options": f"-c search_path={value.replace(' ', '')}"},
        "tcpKeepAlive": lambda value: {"keepalives": 1 if parse_boolean(value) else 0},
    },
    "mysql": _OF_MYSQL,
    "mariadb": _OF_MYSQL,
    "sqlserver": {"loginTimeout": _seconds("login_timeout"), "applicationName": _same("appname")},
}
"""The parameters of JDBC drivers, and the options of the Python drivers that have the same effect."""
