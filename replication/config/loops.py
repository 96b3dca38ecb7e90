"""Loops along which records would be copied without end. Pure."""

from collections import defaultdict, deque
from collections.abc import Mapping


def endless_loops(edges: Mapping[tuple[str, str], bool]) -> list[tuple[str, ...]]:
    """Returns the loops along *edges* that some record would follow again and again.

    Args:
        edges: From where to where records are copied, and whether the flow neither copies a record
            back nor leaves out to say where it comes from. A loop ends if all of its flows do so.

    Returns:
        One shortest loop through each edge that does not, as nodes from the smallest one back to
        it; the same loop once.
    """
    following: dict[str, list[str]] = defaultdict(list)
    for start, end in sorted(edges):
        following[start].append(end)
    loops: dict[tuple[str, ...], None] = {}
    for (start, end), is_ended in sorted(edges.items()):
        path = None if is_ended else _shortest(following, end, start)
        if path:
            first = path.index(min(path))
            loops[path[first:] + path[: first + 1]] = None
    return list(loops)


def _shortest(following: Mapping[str, list[str]], start: str, goal: str) -> tuple[str, ...] | None:
    """Returns the nodes from *start* to *goal*; None if there is no way."""
    came_from: dict[str, str] = {}
    waiting = deque([start])
    known = {start}
    while waiting:
        node = waiting.popleft()
        if node == goal:
            path = [node]
            while node != start:
                node = came_from[node]
                path.append(node)
            return tuple(reversed(path))
        for after in following.get(node, ()):
            if after not in known:
                known.add(after)
                came_from[after] = node
                waiting.append(after)
    return None
