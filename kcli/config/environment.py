"""The environment variables of Kafka's scripts, in one table: which have an effect here, and what to use instead of the
others.

Six variables contain options for a JVM. Kafka's scripts pass these options to Java in a fixed order, and the last
`-Dname=value` counts. A system property that means something here has an effect. A warning names each other option, but
never its value, because a value may be a password.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum

from kcli.model.java_text import split_blanks, trim

JMX_PORT = "JMX_PORT"
LOG_DIR = "LOG_DIR"
EXTRA_ARGS = "EXTRA_ARGS"
KAFKA_OPTS = "KAFKA_OPTS"
KAFKA_JMX_OPTS = "KAFKA_JMX_OPTS"

JAAS_FILE = "java.security.auth.login.config"
_LOGS_DIR = "kafka.logs.dir"
_JMX = "com.sun.management.jmxremote"
_KERBEROS_TRACE = "/dev/stderr"

JVM_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    KAFKA_JMX_OPTS,
    "KAFKA_LOG4J_OPTS",
    KAFKA_OPTS,
)
"""The variables with options for a JVM, in the order in which Java reads them. Java itself reads the first two."""

_NO_JVM = "kcli does not run on a JVM"


class Where(Enum):
    """The programs for which a variable causes a warning."""

    ALL = "all"
    NODES = "nodes"
    TOOLS = "tools"
    SCRIPTS = "nodes, and tools that were started by the name of Kafka's script"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable. `use` completes the sentence "The variable …" for the docs. `instead` completes the
    warning "The variable has no effect: …". `harmless` is the value that Kafka's scripts set by default."""

    name: str
    use: str
    instead: str = ""
    warns: Where = Where.NOWHERE
    harmless: str = ""


VARIABLES = (
    Variable(KAFKA_OPTS, "sets the system properties of the next table"),
    Variable(LOG_DIR, "names the directory of a node's log files"),
    Variable(
        JMX_PORT,
        "opens the metrics endpoint of a node on this port",
        "only a node opens a port for metrics; a tool has --print-metrics or --output json",
        Where.TOOLS,
    ),
    Variable(
        KAFKA_JMX_OPTS,
        "sets the port and the address of the metrics endpoint of a node. If it asks for a login or for TLS, the port "
        "stays closed until kcli.metrics.users or kcli.metrics.protocol=HTTPS is set",
        "only a node opens a port for metrics; a tool has --print-metrics or --output json",
        Where.TOOLS,
    ),
    Variable(EXTRA_ARGS, "gives server-start the options -daemon and -name. -loggc has no effect"),
    Variable(
        "KAFKA_HEAP_OPTS",
        "has no effect",
        "kcli has no Java heap. To limit the memory of a node, use MemoryMax= of systemd or the limit of the container",
        Where.ALL,
    ),
    Variable(
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "has no effect",
        f"{_NO_JVM}, and needs no options for its speed. Unset the variable",
        Where.ALL,
    ),
    Variable(
        "KAFKA_GC_LOG_OPTS",
        "has no effect",
        f"{_NO_JVM}, and writes no log of its garbage collector. Use the metrics of kcli.metrics.listener",
        Where.ALL,
    ),
    Variable(
        "KAFKA_LOG4J_OPTS",
        "has no effect, except for -Dkafka.logs.dir",
        "kcli does not read files of Log4j. For a node, use kcli.log.levels and kcli.log.format in its properties file",
        Where.ALL,
    ),
    Variable(
        "KAFKA_DEBUG",
        "has no effect, and neither have JAVA_DEBUG_PORT, JAVA_DEBUG_OPTS and DEBUG_SUSPEND_FLAG",
        f"{_NO_JVM}, so no Java debugger can connect. For more lines in a node's log, use kcli.log.levels",
        Where.ALL,
    ),
    Variable(
        "CLASSPATH",
        "has no effect",
        "kcli loads no Java classes. Entry points of Python packages take the place of plugins (docs/security.md)",
        Where.SCRIPTS,
    ),
    *(
        Variable(name, "has no effect", "kcli has no jar files. Unset the variable", Where.SCRIPTS, harmless)
        for name, harmless in (
            ("INCLUDE_TEST_JARS", "false"),
            ("SCALA_VERSION", ""),
            ("SCALA_BINARY_VERSION", ""),
            ("UPGRADE_KAFKA_STREAMS_TEST_VERSION", ""),
        )
    ),
    Variable("KAFKA_MODE", "has no effect", f"{_NO_JVM}. Unset the variable", Where.SCRIPTS),
    Variable("JAVA_HOME", "names the Java for Spark. Only kcli's jobs on Spark need Java"),
    Variable("JAVA_TOOL_OPTIONS", "sets the system properties of the next table"),
    Variable("JDK_JAVA_OPTIONS", "sets the system properties of the next table"),
)

NAMES = tuple(variable.name for variable in VARIABLES)

EFFECTS: Mapping[str, str] = {
    JAAS_FILE: "names a JAAS file: for a node, if the key of the same name is not set; for a tool, if "
    "`sasl.jaas.config` is not set",
    "java.security.krb5.conf": "names the configuration of Kerberos, as the variable KRB5_CONFIG does",
    "sun.security.krb5.debug": "if it is true, Kerberos writes a trace to stderr",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls": "lists the URLs that OAUTHBEARER may use",
    "org.apache.kafka.sasl.oauthbearer.allowed.files": "lists the files that OAUTHBEARER may use",
    _LOGS_DIR: "takes precedence over LOG_DIR",
    f"{_JMX}.port": "opens the metrics endpoint of a node, as JMX_PORT does",
    f"{_JMX}.host": "names the address of the metrics endpoint",
    f"{_JMX}.authenticate": "false: the metrics endpoint needs no login",
    f"{_JMX}.ssl": "false: the metrics endpoint needs no TLS",
    "user.timezone": "sets the time zone of the log, as the variable TZ does",
    "java.io.tmpdir": "names the directory for temporary files, as the variable TMPDIR does",
}
"""The system properties that have an effect. Each value completes a sentence of the docs."""

_NOTHING_TO_DO = frozenset(
    {
        _JMX,
        f"{_JMX}.local.only",
        f"{_JMX}.rmi.port",
        "java.awt.headless",
        "java.rmi.server.hostname",
        "log4j2.formatMsgNoLookups",
    }
)
"""System properties that need no warning, because kcli has no RMI, no Log4j and no windows."""

_INSTEAD: Mapping[str, str] = {
    "log4j": "use kcli.log.levels and kcli.log.format in the properties file of the node",
    "java.security.krb5.": "use a file of Kerberos with -Djava.security.krb5.conf=FILE",
    "javax.net.ssl.": "use the ssl.* keys, such as ssl.truststore.location",
    "java.net.preferIPv": "write the address into listeners or bootstrap.servers",
    "http": "connect without a proxy",
    "org.apache.kafka.disallowed.login.modules": "kcli has a fixed list of login modules, and loads no other",
    "org.apache.kafka.automatic.config.providers": "kcli has only the providers file, dir and env",
    _JMX: "use kcli.metrics.users and the ssl.* keys with the prefix of the metrics endpoint",
    "-javaagent": "use kcli.metrics.listener, whose endpoint serves the format of Prometheus",
    "-agentlib": "no Java debugger can connect",
}
"""What to use instead of other options, by the beginning of their names."""


def system_property(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Returns a system property of Java, or None if it is not set or empty. The last value counts, as in Java."""
    text = None
    for _, word in _options(os.environ if environment is None else environment):
        key, _, value = word.partition("=")
        if key == f"-D{name}":
            text = value
    return text or None


def jaas_file(environment: Mapping[str, str] | None = None) -> str | None:
    """Returns the path of the JAAS file. Java also accepts a URL `file:…`, and `==` for "only this file"."""
    path = system_property(JAAS_FILE, environment)
    if path is None:
        return None
    path = path.removeprefix("=")
    return path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:") else path


def logs_directory(environment: Mapping[str, str] | None = None) -> str | None:
    """Returns the directory of a node's log files, or None if no variable names it."""
    variables = os.environ if environment is None else environment
    return system_property(_LOGS_DIR, variables) or variables.get(LOG_DIR) or None


def metrics_address(environment: Mapping[str, str] | None = None) -> str | None:
    """Returns the host:port that the variables of JMX name, or None if they name no port."""
    variables = os.environ if environment is None else environment
    # The script adds -Dcom.sun.management.jmxremote.port=$JMX_PORT after KAFKA_JMX_OPTS.
    port = trim(variables.get(JMX_PORT, "")) or system_property(f"{_JMX}.port", variables)
    host = system_property(f"{_JMX}.host", variables) or ""
    return f"{f'[{host}]' if ':' in host else host}:{port}" if port else None


def metrics_demands(environment: Mapping[str, str] | None = None) -> tuple[bool, bool]:
    """Whether the options of JMX demand a login, and whether they demand TLS. Both are Java's defaults, but the default
    of KAFKA_JMX_OPTS demands neither."""
    variables = os.environ if environment is None else environment
    if not variables.get(KAFKA_JMX_OPTS) and system_property(f"{_JMX}.port", variables) is None:
        return False, False

    def demanded(name: str) -> bool:
        return (system_property(f"{_JMX}.{name}", variables) or "true").lower() != "false"

    return demanded("authenticate"), demanded("ssl")


def apply_to_process(environment: MutableMapping[str, str] | None = None) -> None:
    """Sets the variables of this process that correspond to system properties."""
    variables = os.environ if environment is None else environment
    krb5, zone = (
        system_property("java.security.krb5.conf", variables),
        system_property("user.timezone", variables),
    )
    if krb5 is not None:
        variables["KRB5_CONFIG"] = krb5
    if (system_property("sun.security.krb5.debug", variables) or "").lower() == "true":
        variables.setdefault("KRB5_TRACE", _KERBEROS_TRACE)
    if (temporary := system_property("java.io.tmpdir", variables)) is not None:
        variables["TMPDIR"] = temporary
    if zone is not None:
        variables["TZ"] = zone
        time.tzset()


def warnings(
    environment: Mapping[str, str] | None = None, *, is_node: bool = False, is_script: bool = False
) -> Iterator[str]:
    """Yields a line for each variable that is set and has no effect. No line contains a value."""
    variables = os.environ if environment is None else environment
    shown = {Where.ALL, Where.NODES if is_node else Where.TOOLS}
    if is_node or is_script:
        shown.add(Where.SCRIPTS)
    idle: dict[str, list[str]] = {}
    for name, word in _options(variables):
        if not _has_effect(word):
            idle.setdefault(name, []).append(_name_of(word))
    for variable in VARIABLES:
        text = trim(variables.get(variable.name, ""))
        if not text or text == variable.harmless:
            continue
        has_effect = (
            variable.warns is Where.ALL and variable.name in JVM_VARIABLES and variable.name not in idle
        )
        if variable.warns in shown and not has_effect:
            yield f"The environment variable {variable.name} has no effect: {variable.instead}."
        elif variable.name in (KAFKA_OPTS, KAFKA_JMX_OPTS):
            for option in dict.fromkeys(idle.get(variable.name, ())):
                yield f"{option} in the environment variable {variable.name} has no effect: {_instead_of(option)}."


def without_options_of_one_node(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without a port and a directory, which the nodes of one machine cannot share."""
    texts = {name: text for name, text in environment.items() if name not in (JMX_PORT, LOG_DIR)}
    for name in JVM_VARIABLES:
        if name in texts:
            words = (word for word in split_blanks(texts[name]) if not _is_of_one_node(word))
            texts[name] = " ".join(words)
    return texts


def _is_of_one_node(word: str) -> bool:
    return word.partition("=")[0] in (f"-D{_JMX}.port", f"-D{_LOGS_DIR}")


def _options(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields each option with the name of its variable. The shell splits a variable only at blanks."""
    for name in JVM_VARIABLES:
        for word in split_blanks(environment.get(name, "")):
            yield name, word


def _has_effect(word: str) -> bool:
    name = word.partition("=")[0].removeprefix("-D")
    return word.startswith("-D") and (name in EFFECTS or name in _NOTHING_TO_DO)


def _name_of(word: str) -> str:
    """The option without its value. A word that is no option may be a part of a value."""
    if not word.startswith("-"):
        return "A word without -D"
    return word.partition("=")[0] if word.startswith("-D") else word.partition("=")[0].partition(":")[0]


def _instead_of(option: str) -> str:
    name = option.removeprefix("-D")
    return next(
        (text for start, text in _INSTEAD.items() if name.startswith(start)), f"{_NO_JVM}. Remove the option"
    )
