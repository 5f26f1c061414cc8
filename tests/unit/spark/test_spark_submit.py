"""The spark-submit wrapper: where it cuts the command line, what it says is missing, what it hands to Spark."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.command.options import UsageError
from kcli.spark.command_line import SubmitError, split_command_line
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.ingest import job as ingest
from kcli.spark.jobs.profile import job as profile
from kcli.spark.jobs.replay import job as replay
from kcli.spark.jobs.sql import job as sql
from kcli.spark.jobs.transform import job as transform
from kcli.spark.submit import (
    check_java,
    java_version,
    job_file,
    packed,
    write_conf,
)


def test_the_first_word_that_is_no_option_is_the_job() -> None:
    line = split_command_line(
        [
            "--master",
            "local[2]",
            "--conf",
            "a.b=c",
            "--verbose",
            "--name=x",
            "export",
            "--topic",
            "t",
            "--master",
            "z",
        ]
    )
    assert line.spark == ("--master", "local[2]", "--conf", "a.b=c", "--verbose", "--name=x")
    assert line.job == "export"
    assert line.arguments == ("--topic", "t", "--master", "z")
    assert line.value("--master") == "local[2]"
    assert line.value("--name") == "x"


@pytest.mark.parametrize(
    "words, local",
    [
        ([], True),
        (["--master", "local[4]"], True),
        (["--master", "spark://h:7077"], False),
        (["--conf", "spark.master=yarn"], False),
        (["--conf=spark.master=local"], True),
    ],
)
def test_local_or_not(words: list[str], local: bool) -> None:
    assert split_command_line([*words, "job.py"]).is_local is local


def test_a_command_line_of_options_has_no_job() -> None:
    assert split_command_line(["--version"]).job is None
    assert split_command_line(["--master"]).job is None


def test_jobs_files_and_uris(tmp_path: Path) -> None:
    assert "drive('ingest')" in Path(job_file("ingest", tmp_path)).read_text()
    assert job_file("hdfs://h/job.py", tmp_path) == "hdfs://h/job.py"
    with pytest.raises(
        SubmitError,
        match=r"there is no file nosuch\.py, and it is not a built-in job \(export, ingest, .*profile\)",
    ):
        job_file("nosuch.py", tmp_path)


def fake_java(directory: Path, version: str) -> Path:
    """A Java home with nothing in it but what tells its version."""
    binary = directory / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\nexit 0\n")
    binary.chmod(0o755)
    (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return binary


@pytest.mark.parametrize("version, number", [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25)])
def test_the_major_version_of_java_is_found(version: str, number: int, tmp_path: Path) -> None:
    assert java_version(str(fake_java(tmp_path, version))) == number


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--master", "local", "export"], False),
        (["--verbose", "export"], True),
        (["--conf", "spark.log.level=INFO", "export"], True),
        (["export", "--verbose"], False),
    ],
)
def test_the_log_of_spark_is_shown_if_the_user_asks(words: list[str], shown: bool) -> None:
    assert split_command_line(words).shows_spark_log == shown


def test_a_java_without_release_file_is_asked(tmp_path: Path) -> None:
    binary = tmp_path / "java"
    binary.write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\" 2022' >&2\n")
    binary.chmod(0o755)
    assert java_version(str(binary)) == 19


def test_missing_or_old_java_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SubmitError, match="Spark needs Java, which is not installed: install Java 17 or newer"
    ):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(SubmitError, match="has no bin/java: install Java 17"):
        check_java()
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(SubmitError, match="is Java 11, too old for Spark"):
        check_java()


def test_missing_pyspark_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kcli.spark.submit.importlib.util.find_spec", lambda name: None)
    assert run(["spark-submit", "--master", "local", __file__]) == 1
    assert capsys.readouterr().err == "pyspark is not installed: pip install 'kcli-streaming[spark]'\n"


def test_help_names_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spark-submit", "--help"]) == 0
    assert "export" in capsys.readouterr().out
    assert run(["spark-submit"]) == 1
    assert "Usage: kcli spark-submit" in capsys.readouterr().err


def test_invalid_job_options_are_reported_without_starting_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spark-submit", "export", "--bootstrap-server", "h:1", "--topic", "t"]) == 1
    assert "kcli spark-submit export: error: argument --path is required" in capsys.readouterr().err
    words = ["--bootstrap-server", "h:1", "--topic", "t", "--path", "p"]
    assert run(["spark-submit", "export", *words, "--mode", "available-now"]) == 1
    assert "--mode available-now needs --checkpoint" in capsys.readouterr().err
    assert run(["spark-submit", "export", *words, "--columns", "value,colour"]) == 1
    assert "there is no column colour" in capsys.readouterr().err
    assert run(["spark-submit", "ingest", *words[:4], "--path", "/nonexistent/*"]) == 1
    assert "there is no file /nonexistent/*" in capsys.readouterr().err


def test_our_settings_are_below_the_users(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "spark-defaults.conf").write_text("spark.ui.enabled true\n")
    (users / "hive-site.xml").write_text("<x/>")
    write_conf(tmp_path / "conf", users, is_local=True)
    lines = (tmp_path / "conf" / "spark-defaults.conf").read_text().splitlines()
    assert lines.index("spark.ui.enabled false") < lines.index("spark.ui.enabled true")
    assert "spark.sql.execution.arrow.maxBytesPerBatch 2147483647" in lines
    assert "spark.master local[*,4]" in lines
    assert (tmp_path / "conf" / "hive-site.xml").read_text() == "<x/>"
    assert "rootLogger.level = warn" in (tmp_path / "conf" / "log4j2.properties").read_text()


def test_a_log_configuration_of_the_user_stays(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "log4j2.properties").write_text("mine")
    write_conf(tmp_path / "conf", users, is_local=False)
    assert (tmp_path / "conf" / "log4j2.properties").read_text() == "mine"
    assert "spark.master" not in (tmp_path / "conf" / "spark-defaults.conf").read_text()


REPORT = """\
#!/bin/sh
echo "$@"
env | grep -E '^(SPARK_|PYSPARK_|PYTHONPATH|KCLI)' | sort
"$PYSPARK_PYTHON" -c 'import sys, kcli; print(sys.executable)'
exit 42
"""


def started(tmp_path: Path, *words: str) -> tuple[list[str], dict[str, str], str]:
    """A script in place of Spark's own shows its arguments, its environment and the workers' Python; exit code 42."""
    home = tmp_path / "pyspark"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "spark-submit").write_text(REPORT)
    (home / "bin" / "spark-submit").chmod(stat.S_IRWXU)
    fake_java(tmp_path / "java", "17.0.1")
    job = tmp_path / "job.py"
    job.write_text("")
    program = (
        "import sys; from pathlib import Path; from kcli.spark import command_line, submit; "
        "submit.spark_home = lambda: Path(sys.argv[1]); "
        "sys.exit(submit.submit(command_line.split_command_line(sys.argv[2:])))"
    )
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path / "java")}
    environment |= {"PYTHONPATH": str(Path(__file__).resolve().parents[3]), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(home), *words, str(job), "one", "two"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 42, done.stderr
    lines = done.stdout.splitlines()
    shown = dict(line.split("=", 1) for line in lines[1:-1])
    return lines[0].split(), shown, lines[-1]


def test_spark_starts_with_our_settings_and_this_python(tmp_path: Path) -> None:
    settings = tmp_path / "p.conf"
    settings.write_text("spark.ui.enabled true\n")
    words, shown, python = started(tmp_path, "--properties-file", str(settings), "--name", "n")
    assert words[:3] == ["--name", "n", "--properties-file"]
    assert words[4:] == [str(tmp_path / "job.py"), "one", "two"]
    assert not os.path.exists(words[3])  # ours and the user's in one file, gone with the run
    assert "SPARK_CONF_DIR" not in shown
    assert shown["SPARK_SUBMIT_OPTS"].startswith("-Dlog4j2.configurationFile=")
    assert "SharedArchiveFile" not in shown["SPARK_SUBMIT_OPTS"]  # nothing was prepared
    assert shown["SPARK_HOME"] == str(tmp_path / "pyspark")
    assert shown["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert shown["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert python == sys.executable  # the workers' Python is this one, and finds kcli


def test_a_configuration_directory_of_the_user_stays(tmp_path: Path) -> None:
    (tmp_path / "pyspark" / "conf").mkdir(parents=True)
    settings = tmp_path / "p.conf"
    settings.write_text("spark.ui.enabled true\n")
    words, shown, _ = started(tmp_path, "--properties-file", str(settings))
    assert (words[0], words[2]) == ("--properties-file", "--load-spark-defaults")
    assert not os.path.exists(words[1])  # a copy, because the user's file may be a pipe
    assert shown["SPARK_CONF_DIR"].endswith("/conf")
    assert not os.path.exists(shown["SPARK_CONF_DIR"])


def test_a_cluster_gets_kcli_as_a_file(tmp_path: Path) -> None:
    words, shown, _ = started(
        tmp_path, "--master", "spark://h:7077", "--py-files=mine.zip", "--num-executors", "3"
    )
    files = words[words.index("--py-files") + 1].split(",")
    assert files[0].endswith("kcli.zip")
    assert files[1:] == ["mine.zip"]
    assert words[:4] == ["--master", "spark://h:7077", "--num-executors", "3"]
    assert "SPARK_LOCAL_IP" not in shown


def test_the_file_for_a_cluster_can_be_imported(tmp_path: Path) -> None:
    imports = "import kcli.spark.data_source, pyspark_kcli"
    code = f"import sys; sys.path.insert(0, sys.argv[1]); {imports}; print(kcli.__file__)"
    pytest.importorskip("pyspark")
    done = subprocess.run(
        [sys.executable, "-c", code, str(packed(tmp_path))],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.startswith(f"{tmp_path}/kcli.zip/kcli/__init__.py")


def test_the_shipped_defaults_are_options_of_the_jobs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).resolve().parents[3] / "config" / "pipeline.properties"
    files = ("command.config", "tables")
    everything = tmp_path / "pipeline.properties"
    lines = [re.sub(r"^#(?=[a-z.]+=)", "", line) for line in path.read_text().splitlines()]
    everything.write_text("\n".join(line for line in lines if not line.split("=")[0].endswith(files)))
    source = tmp_path / "in.csv"
    source.write_text("id\n1\n")
    common = ["--config", str(everything), "--topic", "t", "--path", str(source)]
    options = export.parse([*common, "--format", "json"])
    assert (options.bootstrap_server, options.format, options.read_committed) == (
        "localhost:9092",
        "json",
        True,
    )
    assert options.max_offsets_per_trigger == "1000000"
    assert ingest.parse([*common, "--format", "csv"]).key_column == "id"
    jobs = {
        transform: ["--sql", "select 1", "--target-topic", "t"],
        sql: ["-e", "select 1"],
        replay: ["--topic", "t", "--target-topic", "u"],
        profile: ["--topic", "t"],
    }
    parsed = {job: job.parse(["--config", str(everything), *words]) for job, words in jobs.items()}
    assert (parsed[sql].on_bad_record, parsed[replay].keep_timestamps) == ("dead-letter", True)
    assert parsed[profile].progress_interval == 5.0
    assert capsys.readouterr().err == ""  # no key was unknown


def test_an_unknown_key_is_reported_and_a_flag_is_true_or_false(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "p.properties"
    settings.write_text("bootstrap.servers=h:1\nexport.colour=red\n")
    export.parse(["--config", str(settings), "--topic", "t", "--path", "p"])
    assert capsys.readouterr().err == f"export: {settings}: export.colour is not an option of this job\n"
    settings.write_text("bootstrap.servers=h:1\nread.committed=yes\n")
    with pytest.raises(UsageError, match=r"read\.committed is 'yes'; expected true or false"):
        export.parse(["--config", str(settings), "--topic", "t", "--path", "p"])


@pytest.mark.parametrize(
    ("words", "is_known"),
    [
        (["--master", "local"], True),
        (["--master", "local[*]"], True),
        (["--master", "local[2, 3]"], True),
        (["--master=local-cluster[1,2,1024]"], True),
        (["--master", "yarn"], True),
        (["--master", "spark://a:7077,b:7077"], True),
        (["--master", "k8s://https://host:6443"], True),
        (["--conf", "spark.master=local[2]"], True),
        (["--master", "locl[2]"], False),
        (["--master", "local[x]"], False),
        (["--master", "local[0]"], False),
        (["--master", "local[\u0662]"], False),
        (["--master", "spark://"], False),
        (["--master="], False),
        (["--conf", "spark.master=yarnn"], False),
    ],
)
def test_a_master_that_spark_does_not_know_is_refused_before_spark_starts(
    words: list[str], is_known: bool
) -> None:
    line = split_command_line([*words, "sql"])
    if is_known:
        line.check_master()
        return
    with pytest.raises(SubmitError, match=r"(--master|spark\.master) \S*: expected local, local\[N\]"):
        line.check_master()


def test_a_file_of_settings_that_is_no_text_is_refused(tmp_path: Path) -> None:
    settings = tmp_path / "p.conf"
    settings.write_bytes(b"spark.app.name caf\xe9\n")
    with pytest.raises(SubmitError, match=r"--properties-file .*/p\.conf: the text is not UTF-8"):
        split_command_line(["--properties-file", str(settings), "sql"])


@pytest.mark.parametrize(
    ("text", "words", "is_local", "is_known"),
    [
        ("spark.master local[2] \n", [], True, True),
        ("spark.master=yarn\n", [], False, True),
        ("spark.master local\nspark.master: yarn\n", [], False, True),
        ("spark.master yarn\n", ["--conf", "spark.master=local"], True, True),
        ("spark.master locl\n", ["--master", "local"], True, True),
        ("spark.master locl\n", [], True, False),
    ],
)
def test_the_master_may_be_in_the_file_of_settings(
    text: str, words: list[str], is_local: bool, is_known: bool, tmp_path: Path
) -> None:
    file = tmp_path / "p.conf"
    file.write_text(text)
    line = split_command_line(["--properties-file", str(file), *words, "sql"])
    file.unlink()
    if is_known:
        line.check_master()
        assert line.is_local is is_local
        return
    with pytest.raises(SubmitError, match=r"spark\.master locl: expected local"):
        line.check_master()


@pytest.mark.parametrize("text", ["spark.master locl\n", None])
def test_a_dry_run_checks_the_file_of_settings(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.conf"
    if text is not None:
        file.write_text(text)
    words = ["--properties-file", str(file), "sql", "--bootstrap-server", "127.0.0.1:1", "-e", "select 1"]
    assert run(["spark-submit", *words, "--dry-run"]) == 1
    error = "No such file or directory" if text is None else "spark.master locl: expected local"
    assert error in capsys.readouterr().err


def test_settings_with_secrets_go_to_a_file_and_not_to_the_command_line_of_the_jvm() -> None:
    words = [
        "--conf",
        "spark.a.secret.key=hush=1",
        "-c",
        "spark.b=1",
        "--conf=spark.url=http://u:hush@h",
        "job.py",
    ]
    line, secrets = split_command_line(words).without_secrets()
    assert line.spark == ("-c", "spark.b=1")
    assert [secret for secret in secrets.splitlines() if not secret.startswith("#")] == [
        "spark.a.secret.key=hush\\=1",
        "spark.url=http\\://u\\:hush@h",
    ]
