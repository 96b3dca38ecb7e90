"""Small files under ``state.dir`` for other processes: on this machine, HDFS or object stores."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.config.home import connector_jars, storage_class_path
from replication.errors import StateError
from replication.kafka.jvm import open_jvm, pyspark_jars
from replication.spark.hadoop import hadoop_conf
from replication.state.folder import local_path, make_private
from replication.state.storage import Storage

MOST_BYTES: Final = 4_194_304
"""Of a request. One that accepts all partitions of the largest topic has less."""


_WHOLE_PUTS: Final = frozenset({"s3", "s3a", "gs"})
"""Schemes of stores that show an object only when it is whole, and copy it to rename it."""


class RequestFiles(Protocol):
    """Small files, named by their paths or URIs."""

    def exists(self, path: str) -> bool:
        """Returns whether the file is there."""

    def find(self, prefix: str) -> list[str]:
        """Returns the files whose paths begin with *prefix*, which ends within a name."""

    def create(self, path: str, text: str = "") -> None:
        """Creates the file with *text*, and its folder if that is missing."""

    def read(self, path: str) -> str:
        """Reads the text of the file; empty if it is not there or not yet written.

        Raises:
            ValueError: It is no text, or longer than any request.
            OSError, Py4JError: It is no file, or cannot be read.
        """

    def delete(self, path: str) -> None:
        """Deletes the file, if it is there."""

    def rename(self, path: str, new: str) -> None:
        """Calls the file or folder *new*; that needs no space on a full disk."""


class LocalFiles(RequestFiles):
    """Files of this machine.

    Args:
        check: Raises StateError where nothing may be written, as in a state.dir that is gone.
    """

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self._check = check

    def exists(self, path: str) -> bool:
        return _file(path).exists()

    def find(self, prefix: str) -> list[str]:
        folder, _, name = prefix.rpartition("/")
        try:
            names = [file.name for file in _file(folder).iterdir()]
        except FileNotFoundError:
            return []
        return [f"{folder}/{found}" for found in names if found.startswith(name)]

    def create(self, path: str, text: str = "") -> None:
        file = _file(path)
        try:
            self._check()
        except StateError as error:  # as if there were no folder to write to
            raise FileNotFoundError(errno.ENOENT, str(error), path) from error
        make_private(file.parent)
        unfinished = file.with_name(f".{file.name}")
        with unfinished.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())  # what it replaces may be deleted next
        unfinished.replace(file)

    def read(self, path: str) -> str:
        file = _file(path)
        try:
            if not stat.S_ISREG(file.stat().st_mode):  # the end of a pipe may never come
                raise OSError(errno.EINVAL, "no regular file", str(file))
            with file.open("rb") as stream:
                return text_of(stream.read(MOST_BYTES + 1))
        except FileNotFoundError:
            return ""

    def delete(self, path: str) -> None:
        _file(path).unlink(missing_ok=True)

    def rename(self, path: str, new: str) -> None:
        _file(path).rename(_file(new))


class HadoopFiles(RequestFiles):
    """Files of any file system that Hadoop knows."""

    def __init__(self, jvm: JVMView, conf: Any) -> None:  # noqa: ANN401 - a Java object
        self._jvm = jvm
        self._conf = conf

    def exists(self, path: str) -> bool:
        system, java = self._locate(path)
        return bool(system.exists(java))

    def find(self, prefix: str) -> list[str]:
        folder, _, name = prefix.rpartition("/")
        system, java = self._locate(folder)
        if not system.exists(java):
            return []
        names = [status.getPath().getName() for status in system.listStatus(java)]
        return [f"{folder}/{found}" for found in names if found.startswith(name)]

    def create(self, path: str, text: str = "") -> None:
        system, java = self._locate(path)
        if system.getUri().getScheme() in _WHOLE_PUTS:
            self._write(java, text)
            return
        folder, _, name = path.rpartition("/")
        _, unfinished = self._locate(f"{folder}/.{name}")
        self._write(unfinished, text)
        if not system.rename(unfinished, java):  # HDFS replaces nothing
            system.delete(java, False)
            self.rename(f"{folder}/.{name}", path)

    def _write(self, java: Any, text: str) -> None:  # noqa: ANN401 - a Java object
        stream = java.getFileSystem(self._conf).create(java)
        stream.write(bytearray(text, "utf-8"))
        stream.close()

    def read(self, path: str) -> str:
        system, java = self._locate(path)
        try:
            stream = system.open(java)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                return ""
            raise
        content = bytes(stream.readNBytes(MOST_BYTES + 1))
        stream.close()
        return text_of(content)

    def delete(self, path: str) -> None:
        system, java = self._locate(path)
        system.delete(java, False)

    def rename(self, path: str, new: str) -> None:
        system, java = self._locate(path)
        if not system.rename(java, self._locate(new)[1]):
            raise OSError(errno.ENOENT, f"the file system does not rename it to {new}", path)

    def _locate(self, path: str) -> tuple[Any, Any]:
        java = self._jvm.org.apache.hadoop.fs.Path(path)
        return java.getFileSystem(self._conf), java


def text_of(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise ValueError(f"longer than {MOST_BYTES} bytes")
    return content.decode()


def _file(path: str) -> Path:
    file = local_path(path)
    if file is None:
        raise ValueError(f"{path} is not on this machine")
    return file


_ALLOW_HTTP: Final = "aws_allow_http"


class ObjectFiles(RequestFiles):
    """Objects of S3 under one state directory. Errors of the store become `OSError`."""

    def __init__(self, storage: Storage) -> None:
        options = dict(storage.options)
        plain = {"allow_http": True} if options.pop(_ALLOW_HTTP, "") else {}
        bucket, _, folder = storage.root.removeprefix("s3://").partition("/")
        self._store = S3Store(bucket, config=options, client_options=plain)  # type: ignore[arg-type]
        root = storage.access.state_dir.rstrip("/")
        self._begin = root.removesuffix(folder) if folder else f"{root}/"

    def exists(self, path: str) -> bool:
        """Returns whether the object is there, or others under its name."""
        with _os_errors():
            found = self._store.list_with_delimiter(self._key(path))
            if found["objects"] or found["common_prefixes"]:
                return True
            with suppress(FileNotFoundError):
                self._store.head(self._key(path))
                return True
            return False

    def find(self, prefix: str) -> list[str]:
        """Returns the objects and folders whose paths begin with *prefix*, within one folder."""
        folder = prefix.rpartition("/")[0]
        with _os_errors():
            found = self._store.list_with_delimiter(self._key(folder))
        keys = [*(one["path"] for one in found["objects"]), *found["common_prefixes"]]
        paths = [f"{self._begin}{key}" for key in keys]
        return [path for path in paths if path.startswith(prefix)]

    def create(self, path: str, text: str = "") -> None:
        with _os_errors():
            self._store.put(self._key(path), text.encode())

    def keeps(self, path: str) -> bool:
        """Returns whether the store refuses to create an object that is there, as a commit needs.

        A server that does not know the condition takes the new one without a word.
        """
        with _os_errors():
            try:
                self._store.put(self._key(path), b"", mode="create")
            except (AlreadyExistsError, PreconditionError):
                return True
            return False

    def read(self, path: str) -> str:
        with _os_errors():
            try:
                found = self._store.get(self._key(path))
            except FileNotFoundError:
                return ""
            if found.meta["size"] > MOST_BYTES:
                raise ValueError(f"longer than {MOST_BYTES} bytes")
            return text_of(bytes(found.bytes()))

    def delete(self, path: str) -> None:
        with _os_errors():
            self._store.delete(self._key(path))

    def rename(self, path: str, new: str) -> None:
        """Calls the object *new*, or everything under the name *path*; each is copied."""
        old, other = self._key(path), self._key(new)
        with _os_errors():
            below = [one["path"] for chunk in self._store.list(f"{old}/") for one in chunk]
            for key in below:
                self._store.rename(key, f"{other}{key.removeprefix(old)}")
            if not below:
                self._store.rename(old, other)

    def _key(self, path: str) -> str:
        return f"{path}/".removeprefix(self._begin).rstrip("/")


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        raise OSError(str(error).partition("\n")[0]) from error


@contextmanager
def open_files(storage: Storage) -> Iterator[RequestFiles]:
    """Yields the files under a state directory, for a process that has no Spark."""
    if (files := files_without_java(storage)) is not None:
        yield files
        return
    with open_jvm(hadoop_class_path()) as jvm:
        yield HadoopFiles(jvm, hadoop_conf(jvm, storage.access.hadoop))


def files_without_java(storage: Storage) -> RequestFiles | None:
    """Returns the files under a state directory; None if only Hadoop's client reaches them."""
    if storage.is_local:
        return LocalFiles()
    if not storage.has_objects:
        return None
    return ObjectFiles(storage)


def hadoop_class_path() -> list[Path]:
    """Returns the jars of Hadoop's client and its configuration, for a JVM without Spark."""
    conf = os.environ.get("HADOOP_CONF_DIR")
    storage = [Path(path) for path in (storage_class_path(),) if path]
    return [*([Path(conf)] if conf else []), *pyspark_jars(), *connector_jars(), *storage]
