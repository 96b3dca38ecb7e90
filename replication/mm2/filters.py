"""MirrorMaker 2's include and exclude lists of names and regexes. Pure."""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name if an include item matches the whole name and no exclude item does.

    Items are names or Java regexes. An empty include list accepts nothing.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def accepts(self, name: str) -> bool:
        """Whether *name* is included and not excluded."""
        return _matches(self.include, name) and not _matches(self.exclude, name)


def pattern_problem(item: str) -> str | None:
    """Why *item* is not a valid pattern, and what to write instead; None if it is valid."""
    try:
        _compile(item)
    except (re.error, FutureWarning) as error:
        return (
            f"{item!r} is not a supported pattern ({error}); write a name, or a regex without "
            r"forms that only Java has (\p{..}, && in [..], possessive quantifiers)"
        )
    return None


def _matches(items: Iterable[str], name: str) -> bool:
    # One by one and not joined with "|", so that flags and groups of one item do not affect others.
    return any(_compile(item).fullmatch(name) for item in items)


@lru_cache(maxsize=4096)
def _compile(item: str) -> re.Pattern[str]:
    r"""*item* as a Python pattern; Java writes ``\Q..\E`` and ``(?<name>..)``."""
    quoted = re.sub(r"\\Q(.*?)(?:\\E|\Z)", lambda part: re.escape(part[1]), item, flags=re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # set operations differ in Java
        # ASCII, because \w and \d match ASCII only in Java.
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", quoted), re.ASCII)
