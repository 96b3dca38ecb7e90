"""A page of a list: filtered, sorted, and found again although the list has changed. Pure."""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Value = float | str | None
"""What a list is sorted by; None is unknown, and comes last in either direction."""

LIMIT: Final = 100
MOST: Final = 1000
_LAST: Final = 2
_WORDS: Final = 1
_NUMBERS: Final = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a list is wanted.

    Args:
        limit: The most items of a page.
        cursor: Where the page begins, as the page before it said; empty for the first.
        q: Only items whose name has this, in any case; empty for all.
        sort: The name of what they are sorted by, with - before it for the greatest first.
    """

    limit: int = LIMIT
    cursor: str = ""
    q: str = ""
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """A part of a list.

    Args:
        items: The items.
        next: The cursor of the next page; None if this is the last.
        total: How many items there are on all pages, after the filter.
    """

    items: tuple[Item, ...]
    next: str | None
    total: int


class PagingError(ValueError):
    """A wish that cannot be met. The text says what to write."""


class CursorError(PagingError):
    """The cursor is none of this list."""


def page_of(
    items: Iterable[Item],
    wish: Wish,
    name: Callable[[Item], str],
    values: Mapping[str, Callable[[Item], Value]],
) -> Page[Item]:
    """Returns the page of *items* that *wish* asks for.

    A cursor is the place of the last item in the order, not a number of items, so what comes and
    goes between two pages makes none appear twice that keeps its place, and none be left out.

    Args:
        items: The whole list.
        wish: What of it is wanted.
        name: The name of an item, unlike any other's; the order of items that are alike.
        values: What items can be sorted by: the name of it, and an item's value.

    Raises:
        PagingError: The sort or the cursor is none of these.
    """
    wanted = wish.q.casefold()
    found = [item for item in items if wanted in name(item).casefold()]
    downwards, by = wish.sort.startswith("-"), wish.sort.removeprefix("-")
    if by not in values:
        raise PagingError(f"sort: {wish.sort!r} is unknown; write one of {', '.join(values)}")

    def place(item: Item) -> tuple[int, float | str, str]:
        return _place(values[by](item), name(item))

    # the least of equal values by name, in either direction
    found.sort(key=name)
    known = [item for item in found if place(item)[0] != _LAST]
    unknown = [item for item in found if place(item)[0] == _LAST]
    known.sort(key=lambda item: place(item)[:2], reverse=downwards)
    ordered = known + unknown
    begin = _begin(ordered, wish, place, downwards=downwards) if wish.cursor else 0
    items_of_page = tuple(ordered[begin : begin + wish.limit])
    more = begin + wish.limit < len(ordered)
    cursor = _cursor(wish, place(items_of_page[-1])) if more and items_of_page else None
    return Page(items_of_page, cursor, len(ordered))


def _place(value: Value, name: str) -> tuple[int, float | str, str]:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _LAST, 0, name
    return (_WORDS if isinstance(value, str) else _NUMBERS), value, name


def _begin(
    ordered: Sequence[Item],
    wish: Wish,
    place: Callable[[Item], tuple[int, float | str, str]],
    *,
    downwards: bool,
) -> int:
    """Returns where the items begin that come after the one in the cursor."""
    kind, value, name = _parse(wish)

    def is_after(item: Item) -> bool:
        own = place(item)
        if own[0] == _LAST or kind == _LAST or own[1] == value:
            return (own[0] == _LAST, own[2]) > (kind == _LAST, name)
        return (own[:2] < (kind, value)) if downwards else (own[:2] > (kind, value))

    return next((n for n, item in enumerate(ordered) if is_after(item)), len(ordered))


def _cursor(wish: Wish, place: tuple[int, float | str, str]) -> str:
    text = json.dumps([wish.sort, wish.q, *place])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse(wish: Wish) -> tuple[int, float | str, str]:
    error = CursorError(
        "cursor: is none of this list; take it from `next` of the page before, with the same sort "
        "and q, or leave it out"
    )
    try:
        padded = wish.cursor + "=" * (-len(wish.cursor) % 4)
        parts = json.loads(base64.urlsafe_b64decode(padded))
        sort, q, kind, value, name = parts
    except (ValueError, TypeError, RecursionError):
        raise error from None
    if not isinstance(kind, int):
        raise error
    is_value = isinstance(value, str) if kind == _WORDS else isinstance(value, int | float)
    is_number = not isinstance(value, bool) and kind in {_NUMBERS, _WORDS, _LAST}
    if [sort, q] != [wish.sort, wish.q] or not (is_value and is_number and isinstance(name, str)):
        raise error
    return kind, value, name
