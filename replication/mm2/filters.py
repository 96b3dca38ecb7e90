"""Which names a flow takes: MirrorMaker 2's include and exclude lists. Pure."""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name that one include item matches as a whole and no exclude item does.

    Items are names or Java regexes. An empty include list accepts nothing.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def accepts(self, name: str) -> bool:
        """Whether *name* is in: exclusion wins."""
        return _matches(self.include, name) and not _matches(self.exclude, name)


def pattern_problem(item: str) -> str | None:
    """Why *item* cannot be used as a pattern, and what to write instead; None if it can."""
    try:
        _compiled(item)
    except (re.error, FutureWarning) as error:
        return (
            f"{item!r} is not a pattern this program can read ({error}); write a name, or a regex "
            r"without Java's own forms (\p{..}, && in [..], possessive quantifiers)"
        )
    return None


def _matches(items: Iterable[str], name: str) -> bool:
    # Item by item, not joined with "|": flags and groups of one item cannot leak into the next.
    return any(_compiled(item).fullmatch(name) for item in items)


@lru_cache(maxsize=4096)
def _compiled(item: str) -> re.Pattern[str]:
    r"""*item* as Python reads it: ``\Q..\E`` and ``(?<name>..)`` are Java's spelling."""
    quoted = re.sub(r"\\Q(.*?)(?:\\E|\Z)", lambda part: re.escape(part[1]), item, flags=re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # set operations: not the same in Java
        # ASCII: \w and \d mean that in Java.
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", quoted), re.ASCII)
