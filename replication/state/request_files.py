"""Small files that are requests, on this machine or on a file system of Hadoop's."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

from py4j.java_gateway import JVMView
from py4j.protocol import Py4JJavaError

from replication.errors import StateError
from replication.state.paths import local_path, make_private

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
        """Returns whether the file is there."""
        return _file(path).exists()

    def find(self, prefix: str) -> list[str]:
        """Returns the files whose paths begin with *prefix*, which ends within a name."""
        folder, _, name = prefix.rpartition("/")
        try:
            names = [file.name for file in _file(folder).iterdir()]
        except FileNotFoundError:
            return []
        return [f"{folder}/{found}" for found in names if found.startswith(name)]

    def create(self, path: str, text: str = "") -> None:
        """Creates the file with *text*, and its folder if that is missing."""
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
        """Reads the text of the file; empty if it is not there or not yet written."""
        file = _file(path)
        try:
            if not stat.S_ISREG(file.stat().st_mode):  # the end of a pipe may never come
                raise OSError(errno.EINVAL, "no regular file", str(file))
            with file.open("rb") as stream:
                return text_of(stream.read(MOST_BYTES + 1))
        except FileNotFoundError:
            return ""

    def delete(self, path: str) -> None:
        """Deletes the file, if it is there."""
        _file(path).unlink(missing_ok=True)

    def rename(self, path: str, new: str) -> None:
        """Calls the file *new*; that needs no space on a full disk."""
        _file(path).rename(_file(new))


class HadoopFiles(RequestFiles):
    """Files of any file system that Hadoop knows.

    Args:
        jvm: py4j's view of a JVM that has Hadoop's client.
        conf: Hadoop's configuration, a Java object.
    """

    def __init__(self, jvm: JVMView, conf: Any) -> None:  # noqa: ANN401 - a Java object
        self._jvm = jvm
        self._conf = conf

    def exists(self, path: str) -> bool:
        """Returns whether the file is there."""
        system, java = self._locate(path)
        return bool(system.exists(java))

    def find(self, prefix: str) -> list[str]:
        """Returns the files whose paths begin with *prefix*, which ends within a name."""
        folder, _, name = prefix.rpartition("/")
        system, java = self._locate(folder)
        if not system.exists(java):
            return []
        names = [status.getPath().getName() for status in system.listStatus(java)]
        return [f"{folder}/{found}" for found in names if found.startswith(name)]

    def create(self, path: str, text: str = "") -> None:
        """Creates the file with *text*, and its folder if that is missing."""
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
        """Reads the text of the file; empty if it is not there or not yet written."""
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
        """Deletes the file, if it is there."""
        system, java = self._locate(path)
        system.delete(java, False)

    def rename(self, path: str, new: str) -> None:
        """Calls the file *new*; that needs no space on a full disk."""
        system, java = self._locate(path)
        if not system.rename(java, self._locate(new)[1]):
            raise OSError(errno.ENOENT, f"the file system does not rename it to {new}", path)

    def _locate(self, path: str) -> tuple[Any, Any]:
        java = self._jvm.org.apache.hadoop.fs.Path(path)
        return java.getFileSystem(self._conf), java


def text_of(content: bytes) -> str:
    """Returns the text of a request.

    Raises:
        ValueError: It is none, or longer than any request.
    """
    if len(content) > MOST_BYTES:
        raise ValueError(f"longer than {MOST_BYTES} bytes")
    return content.decode()


def _file(path: str) -> Path:
    file = local_path(path)
    if file is None:
        raise ValueError(f"{path} is not on this machine")
    return file
