"""The command that submits a job: a user's arguments are merged with ours, in every deploy mode."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from replication.config.home import OUR_JAR, SERIAL, VARIABLES, collector, written
from replication.deploy import submit
from replication.deploy.arguments import (
    Arguments,
    ArgumentsError,
    driver_memory,
    megabytes,
    merge,
    parse,
)
from replication.errors import SetupError
from tests.support.local import PYTHON, REPOSITORY


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A local environment with one jar, for all tests: an archive of the packages takes seconds."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "jars/spark").mkdir(parents=True)
    (folder / "jars/spark/connector.jar").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPLICATION_HOME", str(folder))
        yield folder


def command(*theirs: str, master: str = "local[4]", **environ: str) -> list[str]:
    job = submit.SubmittedJob(REPOSITORY, "mirror", "/etc/orders.yaml", ["--mode", "drain"])
    return submit.command(job, master, theirs, environ, PYTHON)


def values(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


CLASS_PATH = ("--driver-class-path", "ours/*")
OURS: Arguments = [
    ("--jars", "a.jar,b.jar"),
    ("--driver-java-options", "-Da=1"),
    ("--conf", "spark.x=1"),
]


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        pytest.param("--jars c.jar", "--jars a.jar,b.jar,c.jar", id="list"),
        pytest.param("--jars=c.jar --jars d.jar", "--jars a.jar,b.jar,c.jar,d.jar", id="twice"),
        pytest.param("--jars b.jar", "--jars a.jar,b.jar", id="the same"),
        pytest.param("--conf spark.jars=c.jar", "--jars a.jar,b.jar,c.jar", id="list as setting"),
        pytest.param(
            "--driver-java-options -Db=2", "--driver-java-options -Da=1 -Db=2", id="Java options"
        ),
        pytest.param(
            "-c spark.driver.extraJavaOptions=-Db=2",
            *("--driver-java-options -Da=1 -Db=2",),
            id="Java options as setting",
        ),
        pytest.param("--driver-class-path x/*", "--driver-class-path ours/*:x/*", id="class path"),
        pytest.param("--files f.txt", "--files f.txt", id="list of theirs alone"),
        pytest.param("--supervise --name n", "--supervise --name n", id="passed on"),
    ],
)
def test_what_a_user_gives_is_added_to_ours(theirs: str, expected: str) -> None:
    assert expected in " ".join(merge([*OURS, CLASS_PATH], parse(theirs.split())))


def test_no_option_is_given_twice() -> None:
    theirs = "--jars c.jar --conf spark.jars=d.jar --driver-java-options -Db=2"

    words = merge(OURS, parse(theirs.split()))

    assert words == [
        *("--jars", "a.jar,b.jar,c.jar"),
        *("--driver-java-options", "-Da=1 -Db=2"),
        *("--conf", "spark.x=1"),
    ]


def test_of_a_setting_theirs_comes_last_and_so_wins() -> None:
    words = merge(OURS, parse(["--conf", "spark.x=2", "--conf", "spark.y=a=b"]))

    assert values(words, "--conf") == ["spark.x=1", "spark.x=2", "spark.y=a=b"]


def test_what_is_redacted_stays_redacted() -> None:
    words = merge(
        [("--conf", "spark.redaction.regex=(?i)secret|token")],
        parse(["--conf", "spark.redaction.regex=pin"]),
    )

    assert words == ["--conf", "spark.redaction.regex=(?i:secret|token)|(?:pin)"]


def test_the_users_defaults_file_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.jars  their.jar\nspark.other 1\n")

    words = command(SPARK_CONF_DIR=str(tmp_path))

    assert values(words, "--jars") == [f"{OUR_JAR},their.jar"]
    assert "spark.other" not in " ".join(words)  # spark-submit reads it itself


@pytest.mark.parametrize(
    ("theirs", "problem"),
    [
        pytest.param(["orders.yaml"], "'orders.yaml' is not an option", id="a word"),
        pytest.param(["--conf"], "--conf needs a value", id="no value"),
    ],
)
def test_wrong_arguments(theirs: list[str], problem: str) -> None:
    with pytest.raises(ArgumentsError, match=problem):
        parse(theirs)
    with pytest.raises(SetupError, match=problem):
        command(*theirs)


@pytest.mark.parametrize(
    ("theirs", "environ", "heap_mb"),
    [
        pytest.param([], {}, 2048, id="ours"),
        pytest.param([], {"DRIVER_MEMORY": "1500m"}, 1500, id="of the environment"),
        pytest.param(
            ["--driver-memory", "3G"], {"DRIVER_MEMORY": "1g"}, 3072, id="of the arguments"
        ),
        pytest.param(["--conf", "spark.driver.memory=1tb"], {}, 1 << 20, id="of a setting"),
        pytest.param(["--driver-memory", "8388608"], {}, 8, id="bytes"),
        pytest.param(
            [], {"DRIVER_MEMORY": "4g", "_JAVA_OPTIONS": "-Xmx1g -Xmx512m"}, 512, id="Java's own"
        ),
    ],
)
def test_the_drivers_memory(theirs: list[str], environ: dict[str, str], heap_mb: int) -> None:
    memory = driver_memory(parse(theirs), environ)

    assert megabytes(memory) == heap_mb
    assert set(values(command(*theirs, **environ), "--driver-memory")) == {memory}


@pytest.mark.parametrize("memory", ["", "much", "2 gigs", "-1g"])
def test_a_memory_that_is_no_size(memory: str) -> None:
    with pytest.raises(ArgumentsError, match=f"the driver's memory is {memory!r}"):
        megabytes(memory)


def test_the_users_java_options_come_last() -> None:
    words = command("--driver-java-options", "-XX:Tier4InvocationThreshold=7")

    (options,) = values(words, "--driver-java-options")
    assert re.findall(r"Tier4InvocationThreshold=(\d+)", options) == ["50000", "7"]


def collectors(*theirs: str, master: str = "local[4]", **environ: str) -> list[str]:
    (options,) = values(command(*theirs, master=master, **environ), "--driver-java-options")
    return re.findall(r"Use(\w+)GC", options)


def test_only_a_driver_that_copies_gets_a_collector_of_ours() -> None:
    assert collectors() == collectors(DEPLOY_MODE="client") == ["Parallel"]
    assert collectors(master="spark://host:7077") == collectors(master="yarn") == []


@pytest.mark.parametrize(
    "theirs",
    [
        ("--driver-java-options", "-Xss1m -XX:+UseZGC"),
        ("--conf", "spark.driver.extraJavaOptions=-XX:+UseZGC"),
        ("--conf", "spark.driver.defaultJavaOptions=-XX:+UseZGC"),
    ],
)
def test_a_jvm_gets_no_second_collector(theirs: tuple[str, str]) -> None:
    assert "Parallel" not in collectors(*theirs)
    assert collectors("--driver-java-options", "-XX:-UseZGC") == ["Parallel", "Z"]


@pytest.mark.parametrize("name", VARIABLES)
def test_no_jvm_gets_a_second_collector_beside_that_of_the_environment(name: str) -> None:
    def launcher(text: str) -> bool:
        (options,) = [word for word in command(**{name: text}) if "SPARK_LAUNCHER_OPTS" in word]
        return "-XX:+UseSerialGC" in options

    assert collectors(**{name: "-Xss1m -XX:+UseG1GC"}) == []
    assert collectors(**{name: "-Xss1m"}) == ["Parallel"]
    assert launcher("-Xss1m")
    assert not launcher("-Xss1m -XX:+UseG1GC")


def test_a_jvm_with_two_collectors_does_not_start() -> None:
    java = str(Path(os.environ.get("JAVA_HOME", "/usr"), "bin/java"))

    def start(tool_options: str) -> int:
        environ = {"JAVA_TOOL_OPTIONS": tool_options}
        words = [java, *collector(SERIAL, {}), "-version"]
        return subprocess.run(words, env=environ, capture_output=True, check=False).returncode

    assert start("-Xss1m") == 0
    assert start("-XX:+UseG1GC") != 0


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", "yarn"])
def test_executors_elsewhere_get_the_jars(master: str) -> None:
    words = command("--jars", "their.jar", master=master)

    ours, interceptor, theirs = values(words, "--jars")[0].split(",")
    assert ours.endswith("/connector.jar")
    assert (interceptor, theirs) == (str(OUR_JAR), "their.jar")
    assert str(OUR_JAR) not in "".join(values(words, "--driver-class-path"))


def test_java_gets_paths_with_odd_characters_as_they_are() -> None:
    job = submit.SubmittedJob(Path("/my mirror's/100%"), "mirror", "orders.yaml", [])
    run = "/my mirror's scratch"

    words = submit.command(job, "local[4]", [], {"REPLICATION_RUN": run}, PYTHON)

    (options,) = values(words, "--driver-java-options")
    split = shlex.split(options)  # as Spark's launcher does
    assert f"-Djava.io.tmpdir={run}" in split
    logging = "file:///my%20mirror%27s/100%25/conf/log4j2.properties"
    assert f"-Dlog4j2.configurationFile={logging}" in split


def test_sparks_own_launcher_takes_options_as_they_were_written() -> None:
    spark = next(PYTHON.parents[1].glob("lib/python*/site-packages/pyspark"))
    option = '-Da=/my mirror\'s "home"/$x\\y 100%'
    launcher = "org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"

    command = ["java", "-cp", f"{spark}/jars/*", *launcher]
    done = subprocess.run(
        [*command, "--driver-java-options", written(option), "job.py"],
        env={**os.environ, "SPARK_HOME": str(spark), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert option in done.stdout.split("\0")


def test_a_local_driver_needs_no_host_name_that_resolves() -> None:
    def names(master: str, **environ: str) -> list[str]:
        words = command(master=master, **environ)
        return [word for word in words if word.startswith("SPARK_LOCAL_HOSTNAME=")]

    assert names("local[4]") == ["SPARK_LOCAL_HOSTNAME=localhost"]
    assert names("spark://m:7077") == names("local[4]", SPARK_LOCAL_IP="127.0.0.1") == []


def test_client_mode_uses_the_files_of_this_machine(home: Path) -> None:
    words = command("--jars", "their.jar", DRIVER_MEMORY="1g")

    assert values(words, "--driver-class-path") == [f"{home}/jars/spark/connector.jar"]
    assert values(words, "--jars") == [f"{OUR_JAR},their.jar"], "tasks run in the driver"
    assert values(words, "--driver-memory") == ["1g"]
    assert values(words, "--archives") == values(words, "--files") == []
    assert f"PYSPARK_PYTHON={PYTHON}" in words
    job = [f"{REPOSITORY}/jobs/mirror.py", "--config", "/etc/orders.yaml", "--mode", "drain"]
    assert words[-5:] == job


@pytest.mark.parametrize(
    ("theirs", "environ"),
    [
        pytest.param([], {"DEPLOY_MODE": "cluster"}, id="by the environment"),
        pytest.param(["--deploy-mode", "cluster"], {}, id="by the arguments"),
    ],
)
def test_cluster_mode_on_yarn_brings_packages_and_interpreter(
    home: Path, theirs: list[str], environ: dict[str, str]
) -> None:
    words = command(*theirs, "--archives", "models.zip#models", master="yarn", **environ)

    ours, models = values(words, "--archives")[0].split(",")
    assert (models, Path(ours).parent) == ("models.zip#models", home / "py-files")
    assert ours.endswith(".tar.gz#environment")
    assert "spark.pyspark.python=./environment/bin/python" in values(words, "--conf")
    assert values(words, "--files") == [f"/etc/orders.yaml,{REPOSITORY}/conf/log4j2.properties"]
    assert words[-4:] == ["--config", "orders.yaml", "--mode", "drain"]
    assert not [word for word in words if word.startswith("PYSPARK_PYTHON=")]


def test_an_interpreter_of_the_users_own_needs_no_archive() -> None:
    words = command("--conf", "spark.pyspark.python=/opt/python", master="yarn",
        DEPLOY_MODE="cluster")  # fmt: skip

    assert values(words, "--archives") == []


def test_kubernetes_takes_the_files_of_the_image() -> None:
    words = command(master="k8s://https://cluster:6443", DEPLOY_MODE="cluster")

    assert values(words, "--jars") == values(words, "--files") == values(words, "--archives") == []
    assert values(words, "--name") == ["mirror-orders"]
    assert words[-5:] == [
        *("local:///opt/replication/jobs/mirror.py", "--config", "/etc/replication/orders.yaml"),
        *("--mode", "drain"),
    ]


def test_kubernetes_takes_the_interpreter_of_the_image() -> None:
    words = command(master="k8s://https://cluster:6443", DEPLOY_MODE="cluster",
        PYSPARK_PYTHON="/here/python")  # fmt: skip

    env = words[: words.index(str(PYTHON.with_name("spark-submit")))]
    started = subprocess.run(
        [*env, "env"], env={"PYSPARK_PYTHON": "/here/python", "PYSPARK_DRIVER_PYTHON": "/x"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "SPARK_HOME=" in started.stdout
    assert "PYSPARK" not in started.stdout


def test_kubernetes_with_a_place_for_uploads_takes_the_files_of_this_machine() -> None:
    words = command("--conf", "spark.kubernetes.file.upload.path=s3a://bucket/uploads",
        master="k8s://https://cluster:6443", DEPLOY_MODE="cluster")  # fmt: skip

    assert values(words, "--jars")[0].endswith("/replication.jar")
    assert words[-5] == f"{REPOSITORY}/jobs/mirror.py"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_hadoop_takes_a_user_without_a_name() -> None:
    """OpenShift starts programs so. SparkSubmit asks Hadoop for the user before all else."""
    user = 123_456
    spark = next(PYTHON.parents[1].glob("lib/python*/site-packages/pyspark/jars"))
    become = f"setpriv --reuid {user} --regid 0 --clear-groups".split()
    hadoop = ("-cp", f"{spark}/*", "org.apache.hadoop.security.UserGroupInformation")
    if subprocess.run([*become, "ls", spark], capture_output=True, check=False).returncode:
        pytest.skip(f"another user may not read {spark}")

    def login(*options: str) -> subprocess.CompletedProcess[str]:
        asked = [*become, "java", *options, *hadoop]
        return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        os.chmod(folder, 0o755)  # noqa: PTH101, S103 - so that the other user finds the agent
        patch.setattr(os, "geteuid", lambda: user)
        (options,) = values(command(REPLICATION_RUN=folder, HOME="/"), "--driver-java-options")
        ours = [one for one in shlex.split(options) if one.startswith(("-javaagent", "-Duser"))]

        assert login().returncode != 0
        assert f"User: user{user}" in login(*ours).stdout
        assert f"-Duser.home={folder}" in ours
    assert "-javaagent" not in " ".join(command())
