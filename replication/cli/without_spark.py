"""The command line where Spark is not installed, as the wheel alone installs it.

Most commands ask files, tables and clusters only, though modules that they share with the job name
classes of Spark. Those names stand for nothing here, until something needs Spark: that is an error
which says what to install.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final, NoReturn

from replication.config.home import NEEDS_SPARK
from replication.errors import SetupError

NAMES: Final = ("pyspark", "py4j")


class _Absent(type):
    """The type of what stands for a class or a module of functions; any use of it is an error."""

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise SetupError(NEEDS_SPARK)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise SetupError(NEEDS_SPARK)


def _absent(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(name, (Exception,), {})  # an exception, as some are named by `except`


class _Absentees(MetaPathFinder, Loader):
    """Finds the modules that are not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Returns what loads *fullname*, None for a module of another package."""
        is_ours = fullname.partition(".")[0] in self._names
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def exec_module(self, module: ModuleType) -> None:
        """Fills *module*: whatever name is asked of it is there."""
        module.__getattr__ = _absent  # type: ignore[method-assign]


def name_what_is_absent() -> None:
    """Lets modules be imported that name something of Spark, where that is not installed."""
    if absent := [name for name in NAMES if find_spec(name) is None]:
        sys.meta_path.append(_Absentees(absent))
