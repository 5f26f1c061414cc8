"""Secrets of the command line, which the list of processes must not show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kcli.runtime.hidden_arguments import secret_parts, without_secrets
from kcli.spark.submit import job_code

SHOW = (
    "import sys; from kcli.runtime.hidden_arguments import hide_secrets; hide_secrets(sys.argv); "
    "print(open('/proc/self/cmdline').read(), end='')"
)


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["--add-config", "SCRAM-SHA-256=[iterations=4096,password=hush]"], ["hush]"]),
        (["--add-scram", "SCRAM-SHA-512=[name=a,password=hüsh]"], ["hüsh]"]),
        (
            ["--producer-property", "sasl.jaas.config=a.PlainLoginModule required;"],
            ["a.PlainLoginModule required;"],
        ),
        (["--override", "delegation.token.secret.key=hush"], ["hush"]),
        (["--command-property", "ssl.keystore.password=hush"], ["hush"]),
        (["--hmac", "aHVzaA=="], ["aHVzaA=="]),
        (["--hmac=aHVzaA=="], ["aHVzaA=="]),
        (["--jmx-auth-prop", "ops=hush"], ["ops=hush"]),
        (["--topic", "password", "--property", "password="], []),
        (["-hmac", "aHVzaA=="], ["aHVzaA=="]),
        (["--jmx-auth-prop=ops=hush"], ["ops=hush"]),
        (["--traces", "http://u:hush@h:1/p"], ["u:hush"]),
        (["--traces=http://hush@h:1"], ["hush"]),
        (["--schema-registry", "http://a:1,https://u:hu/s@h@b:2"], ["a:1,https://u:hu/s@h"]),
        (["--override", "kcli.trace.endpoint=http://u:hush@h:1"], ["u:hush"]),
        (["--url", "jdbc:postgresql://h/d?user=u&password=hush"], ["hush"]),
        (["--url", "postgresql+psycopg://u:hush@h/d"], ["u:hush"]),
        (["--conf", "spark.hadoop.fs.s3a.secret.key=hush"], ["hush"]),
        (["--conf", "spark.hadoop.fs.azure.account.key.a.blob.core.windows.net=hush"], ["hush"]),
        (["--catalog", "token=hush"], ["hush"]),
        (["--write-option", '{"password": "hush"}'], ['"hush"}']),
        (["--command-property", "basic.auth.user.info=u:hush"], ["u:hush"]),
        (["--override", "sasl.oauthbearer.token.endpoint.url=http://h:1/token"], []),
        (["--metrics", "http://h:1/a", "--topic", "a@b"], []),
    ],
)
def test_secrets_are_found(words: list[str], hidden: list[str]) -> None:
    assert [word[start:end] for word, start, end in secret_parts(words)] == hidden


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("token=http://u:hush@h", "token=***"),
        ("http://u:hush?password=hu@sh", "http://***"),
        ("http://u:hush@h?password=hush", "http://***@h?password=***"),
        ("topic=t", "topic=t"),
    ],
)
def test_secrets_that_overlap_are_hidden_once(word: str, shown: str) -> None:
    assert without_secrets(["--hmac", "hush", word, word]) == ["--hmac", "***", shown, shown]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
def test_the_list_of_processes_does_not_show_secrets() -> None:
    words = [
        "configs",
        "--add-config",
        "SCRAM-SHA-256=[password=hüsh]",
        "--hmac",
        "hush",
        "--topic",
        "hush-t",
    ]
    shown = subprocess.run([sys.executable, "-c", SHOW, *words], capture_output=True, text=True, check=True)
    hidden = [
        "configs",
        "--add-config",
        f"SCRAM-SHA-256=[password={'*' * 6}",
        "--hmac",
        "****",
        "--topic",
        "hush-t",
    ]
    assert shown.stdout.split("\0")[3:-1] == hidden


SHOW_AT_IMPORT = """
import os, runpy, sys
program, module = sys.argv[1:3]
del sys.argv[1:3]
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            print(open("/proc/self/cmdline").read(), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Hook())
runpy.run_module(program, run_name="__main__", alter_sys=True)
"""
"""Prints the command line as other users see it when a program imports a module."""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
def test_the_driver_of_a_spark_job_hides_its_secrets() -> None:
    hook = SHOW_AT_IMPORT.split("runpy.run_module")[0]
    words = ["", "kcli.spark.jobs.ingest.job", "--url", "postgresql://u:hush@h/d"]
    shown = subprocess.run(
        [sys.executable, "-c", hook + job_code("ingest"), *words], capture_output=True, text=True, check=True
    )
    assert "postgresql://******@h/d" in shown.stdout and "hush" not in shown.stdout


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux has /proc")
@pytest.mark.parametrize(
    ("program", "module"),
    [("kcli", "kcli.cli.main"), ("kcli.server.main", "kcli.config.broker")],
    ids=["kcli", "a server in the background"],
)
def test_a_program_hides_its_secrets_before_it_imports_its_code(program: str, module: str) -> None:
    words = ["server.properties", "--override", "ssl.keystore.password=hush"]
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_AT_IMPORT, program, module, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ssl.keystore.password=****" in shown.stdout and "hush" not in shown.stdout
