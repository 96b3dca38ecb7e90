"""Small files that are requests, as objects of S3, without Hadoop's client."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from replication.state.request_files import MOST_BYTES, RequestFiles, text_of
from replication.state.storage import Storage

_ALLOW_HTTP: Final = "aws_allow_http"


class ObjectFiles(RequestFiles):
    """Objects under one state directory. Errors of the store become `OSError`."""

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
        """Creates the object with *text*."""
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
        """Reads the text of the object; empty if it is not there."""
        with _os_errors():
            try:
                found = self._store.get(self._key(path))
            except FileNotFoundError:
                return ""
            if found.meta["size"] > MOST_BYTES:
                raise ValueError(f"longer than {MOST_BYTES} bytes")
            return text_of(bytes(found.bytes()))

    def delete(self, path: str) -> None:
        """Deletes the object, if it is there."""
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
