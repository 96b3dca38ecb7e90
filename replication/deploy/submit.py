"""Prints the command that submits a job; spark-submit.sh runs it.

    python -m replication.deploy.submit --repository R --python P --job J --config FILE --master M
        [arguments of the job] -- [arguments of spark-submit]

Nothing is started. In client mode the driver uses this machine's files. In cluster mode Spark
carries them to the driver; on Kubernetes without ``spark.kubernetes.file.upload.path`` they are in
the image, by the paths of conf/deploy/kubernetes/Dockerfile.
"""

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # which Python 3.10 adds for -m; an argparse.py that lies there must not run

import argparse
import os
import pwd
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from replication.config.client_keys import SPARK_REDACTION
from replication.config.flat import parse_properties
from replication.config.home import (
    OUR_JAR,
    PARALLEL,
    RUN_FOLDER,
    SERIAL,
    collector,
    connector_jars,
    home,
    logging_option,
    storage_class_path,
    written,
)
from replication.deploy.archives import ENVIRONMENT, INTERPRETER, environment, py_files
from replication.deploy.arguments import (
    REDACTION,
    Arguments,
    ArgumentsError,
    driver_memory,
    last,
    merge,
    parse,
    settings,
)
from replication.errors import ReplicationError, SetupError
from replication.log import print_failure
from replication.model import is_local_mode
from replication.spark.class_archive import archive_options
from replication.spark.doors import LOCAL_IP, LOOPBACK, PAGE, closed

UPLOAD_PATH: Final = "spark.kubernetes.file.upload.path"
IMAGE: Final = "local:///opt/replication"
IMAGE_CONFIG: Final = "/etc/replication"
PYTHON_SETTING: Final = "spark.pyspark.python"
DRIVER_PYTHON: Final = "spark.pyspark.driver.python"
LATE_OPTIMIZER: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Raises the thresholds of the optimizing compiler tenfold. What only a start needs is left to the
quick compiler; the path of the records is optimized all the same."""

NO_HALF_DRIVER: Final = "-XX:OnOutOfMemoryError='kill -9 %p'"
"""Out of memory, the JVM would lose a thread here and there and hang: as a crash, nothing is lost,
and whoever started the job starts it again."""

CALM: Final = "-XX:PerfDataSamplingInterval=1000"
"""For ``jstat`` a JVM copies its counters twenty times a second, which takes a tenth of a percent
of a core."""

DRIVER_OPTIONS: Final = f"{LATE_OPTIMIZER} {CALM} {NO_HALF_DRIVER}"

NAMED_USER: Final = "replication.agent.NamedUser"

JSON_LOG: Final = "-Dreplication.log.format=json"
"""Of the driver's JVM, whose lines conf/log4j2.properties shapes."""

QUICK_LAUNCHER: Final = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Options for the launcher JVM, which only builds the driver's command line."""


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """What to submit.

    Args:
        repository: The checkout.
        name: Of the job: a file in ``jobs/``.
        config: The configuration file.
        arguments: Further arguments of the job.
    """

    repository: Path
    name: str
    config: str
    arguments: Sequence[str]

    @property
    def title(self) -> str:
        """The application's name, from which Kubernetes makes the names of pods."""
        return f"{self.name}-{Path(self.config).stem}"

    @property
    def log_options(self) -> Arguments:
        """Options of spark-submit for the format of the log."""
        is_json = ("--log-format", "json") in pairwise(self.arguments)
        return [("--driver-java-options", JSON_LOG)] if is_json else []


def command(
    job: SubmittedJob, master: str, theirs: Sequence[str], environ: Mapping[str, str], python: Path
) -> list[str]:
    """Returns the command line, with the variables that it needs.

    Args:
        job: What to submit.
        master: Spark's master, unless *theirs* has one.
        theirs: The user's arguments of spark-submit.
        environ: The environment; DEPLOY_MODE, DRIVER_MEMORY and CLIENT_JARS are read.
        python: The interpreter of the environment that holds PySpark.

    Raises:
        SetupError: *theirs* are wrong, or a package is missing.
    """
    spark_home = next(python.parents[1].glob("lib/python*/site-packages/pyspark"), Path())
    try:
        given = parse(theirs)
        defaults = _defaults(given, environ, spark_home)
    except (ArgumentsError, OSError, ValueError) as error:
        raise SetupError(f"arguments of spark-submit: {error}") from error
    master = last(given, "--master", "spark.master") or master
    start = _Start(job, master, given, {**defaults, **settings(given)}, environ, python)
    placed = start.placed()
    launcher = environ.get("SPARK_LAUNCHER_OPTS")
    variables = {
        "SPARK_HOME": str(spark_home),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LAUNCHER_OPTS": launcher or " ".join([QUICK_LAUNCHER, *collector(SERIAL, environ)]),
        **placed.variables,
    }
    return [
        *("env", *(word for name in placed.removed for word in ("-u", name))),
        *(f"{name}={value}" for name, value in variables.items()),
        str(python.with_name("spark-submit")),
        *merge([*start.options(), *placed.options], given, defaults),
        *(placed.file, "--config", placed.config, *job.arguments),
    ]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A driver at its place.

    Args:
        file: What it runs.
        config: The configuration file, as the driver finds it.
        options: Of spark-submit.
        variables: Of the environment.
        removed: Variables of this machine that would mislead it.
    """

    file: str
    config: str
    options: Arguments
    variables: Mapping[str, str] = field(default_factory=dict)
    removed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Start:
    """A start of a job.

    Args:
        job: What to submit.
        master: Spark's.
        given: The user's arguments of spark-submit.
        known: All settings of the user's.
        environ: The environment.
        python: The interpreter of the environment that holds PySpark.
    """

    job: SubmittedJob
    master: str
    given: Arguments
    known: Mapping[str, str]
    environ: Mapping[str, str]
    python: Path

    @property
    def is_cluster(self) -> bool:
        mode = last(self.given, "--deploy-mode", "spark.submit.deployMode")
        return (mode or self.environ.get("DEPLOY_MODE", "client")) == "cluster"

    def options(self) -> Arguments:
        doors = closed(self.master, self.known).items()
        return [
            *self.job.log_options,
            ("--master", self.master),
            ("--deploy-mode", "cluster" if self.is_cluster else "client"),
            ("--name", self.job.title),
            ("--driver-memory", driver_memory(self.given, self.environ)),
            ("--conf", f"{REDACTION}={SPARK_REDACTION}"),
            *(("--conf", f"{key}={value}") for key, value in doors),
        ]

    def placed(self) -> _Placed:
        if not self.is_cluster:
            return self._here()
        if self.master.startswith("k8s:") and UPLOAD_PATH not in self.known:
            return self._in_image()
        return self._sent()

    def _here(self) -> _Placed:
        workers = self.environ.get("PYSPARK_PYTHON") or str(self.python)
        variables = {"PYSPARK_PYTHON": workers, "PYSPARK_DRIVER_PYTHON": str(self.python)}
        # which a properties file of other jobs may have set, and it comes before the variable
        ours: Arguments = [("--conf", f"{DRIVER_PYTHON}={self.python}")]
        archived, java_options = archive_options()
        class_path, jars = [archived, storage_class_path()], _own_jars()
        options = [DRIVER_OPTIONS, java_options]
        if folder := self.environ.get(RUN_FOLDER):  # Java's and Spark's temporary files
            options.append(written(f"-Djava.io.tmpdir={folder}"))
        options += _named_user(self.environ)
        if is_local_mode(self.master):  # tasks run in the driver, and have its class path
            if LOCAL_IP not in self.environ:
                # the driver and its page, if asked for, on this machine only; its name may have no
                # address
                name = self.environ.get("SPARK_LOCAL_HOSTNAME", "localhost")
                variables |= {LOCAL_IP: LOOPBACK, "SPARK_LOCAL_HOSTNAME": name}
                ours += [("--conf", f"{PAGE}=false")] if PAGE not in self.known else []
            options[:0] = _collector(self.given, self.known, self.environ)
            # ours is not in the archive, which must begin the class path
            class_path[0] = archived or os.pathsep.join(jars[:-1])
            jars = jars[-1:]
        log4j2 = (self.job.repository / "conf" / "log4j2.properties").absolute()
        ours += _files(self.job.repository, logging_option(log4j2), self.environ, jars)
        ours += [
            ("--driver-class-path", os.pathsep.join(filter(None, class_path))),
            ("--driver-java-options", " ".join(filter(None, options))),
        ]
        return _Placed(self._file(self.job.repository), self.job.config, ours, variables)

    def _in_image(self) -> _Placed:
        in_image = Path(IMAGE.removeprefix("local://"), "log4j2.properties")
        ours: Arguments = [("--driver-java-options", logging_option(in_image))]
        config = f"{IMAGE_CONFIG}/{Path(self.job.config).name}"
        return _Placed(self._file(IMAGE), config, ours, removed=self._misleading)

    def _sent(self) -> _Placed:
        """Returns the driver with the files that spark-submit brings into its current folder."""
        logging = "-Dlog4j2.configurationFile=log4j2.properties"
        # this machine's folder of the process is gone before the driver has its files
        environ = {**self.environ, RUN_FOLDER: ""}
        ours = [*_files(self.job.repository, logging, environ, _own_jars())]
        log4j2 = self.job.repository / "conf" / "log4j2.properties"
        ours += [("--files", f"{self.job.config},{log4j2}")]
        if PYTHON_SETTING not in self.known and not self.master.startswith("k8s:"):
            archive = environment(home() / "py-files")
            ours += [("--archives", f"{archive}#{ENVIRONMENT}")]
            ours += [("--conf", f"{PYTHON_SETTING}={INTERPRETER}")]
        config = Path(self.job.config).name
        return _Placed(self._file(self.job.repository), config, ours, removed=self._misleading)

    @property
    def _misleading(self) -> Sequence[str]:
        """The variables by which Spark would give the image this machine's path."""
        is_image = self.master.startswith("k8s:")
        return ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON") if is_image else ()

    def _file(self, folder: Path | str) -> str:
        return f"{folder}/jobs/{self.job.name}.py"


def _collector(given: Arguments, known: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Returns the garbage collector of a driver that copies the records itself.

    Few objects outlive a batch, so that its pauses are short, and a record costs a tenth less CPU
    than with G1, the JVM's default.
    """
    names = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
    options = [value for name, value in given if name == "--driver-java-options"]
    return collector(PARALLEL, environ, *options, *map(known.get, names))


def _own_jars() -> list[str]:
    return [str(jar) for jar in (*connector_jars(), OUR_JAR)]


def _files(
    repository: Path, logging: str, environ: Mapping[str, str], own_jars: Sequence[str]
) -> Arguments:
    jars = [*own_jars, *filter(None, environ.get("CLIENT_JARS", "").split(","))]
    return [
        *((("--jars", ",".join(jars)),) if jars else ()),
        ("--py-files", str(_our_code(repository, environ.get(RUN_FOLDER)))),
        ("--driver-java-options", logging),
    ]


def _named_user(environ: Mapping[str, str]) -> list[str]:
    """Returns the options for a user without a name, as OpenShift has: Hadoop's login needs one."""
    user = os.geteuid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        folder = Path(environ.get(RUN_FOLDER) or home() / "py-files")
        agent = folder / "named-user.jar"
        with ZipFile(OUR_JAR) as ours, ZipFile(agent, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", f"Premain-Class: {NAMED_USER}\n")
            jar.writestr(entry := f"{NAMED_USER.replace('.', '/')}.class", ours.read(entry))
        own = environ.get("HOME", "")
        place = own if own != "/" and os.access(own, os.W_OK) else str(folder)
        return [written(f"-javaagent:{agent}=user{user}", f"-Duser.home={place}")]
    return []


def _our_code(repository: Path, run_folder: str | None) -> Path:
    """Where the set-up is another user's, it is of this process alone."""
    try:
        return py_files(repository, home() / "py-files")
    except SetupError:
        if not run_folder:
            raise
        return py_files(repository, Path(run_folder))


def _defaults(given: Arguments, environ: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    folder = environ.get("SPARK_CONF_DIR") or spark_home / "conf"
    named = last(given, "--properties-file")
    file = Path(named) if named else Path(folder, "spark-defaults.conf")
    if not named and not file.exists():
        return {}
    text = file.read_text(encoding="utf-8")
    return {key: value.strip() for key, value, _ in parse_properties(text)}


def main(words: Sequence[str]) -> int:
    """Prints the command, quoted for a shell, and returns the exit code."""
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--repository", "--python", "--job", "--config", "--master"):
        parser.add_argument(name, required=True)
    own, arguments = parser.parse_known_args(words[:end])
    job = SubmittedJob(Path(own.repository), own.job, own.config, arguments)
    try:
        line = command(job, own.master, words[end + 1 :], os.environ, Path(own.python))
    except ReplicationError as error:
        print_failure(error.exit_code, str(error))
        return error.exit_code
    print(shlex.join(line))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
