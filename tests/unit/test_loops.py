"""Which flows would copy records in a circle, against a search of every way."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replication.config.checks import endless_loops

Edges = dict[tuple[str, str], bool]

NODES = st.sampled_from("ABCDE")
EDGES = st.dictionaries(
    st.tuples(NODES, NODES).filter(lambda ends: ends[0] != ends[1]), st.booleans()
)


def reachable(edges: Edges, start: str) -> set[str]:
    """The nodes to which a record goes from *start*, without *start* itself unless it returns."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        after = {end for begin, end in edges if begin == node} - found
        found |= after
        waiting += after
    return found


def test_a_loop_begins_at_its_smallest_node_and_is_named_once() -> None:
    edges = {("C", "B"): False, ("B", "C"): False, ("B", "A"): True}

    assert endless_loops(edges) == [("B", "C", "B")]


def test_flows_that_all_end_loops_make_none() -> None:
    assert endless_loops({("A", "B"): True, ("B", "A"): True}) == []


@given(EDGES)
def test_there_is_a_loop_exactly_through_each_edge_that_does_not_end_it(edges: Edges) -> None:
    loops = endless_loops(edges)

    steps = [list(pairwise(loop)) for loop in loops]
    endless = {edge for edge, is_ended in edges.items() if not is_ended}
    closed = {(start, end) for start, end in endless if start in reachable(edges, end)}
    assert all(set(path) <= edges.keys() for path in steps), "along the edges"
    assert all(loop[0] == loop[-1] == min(loop) for loop in loops)
    assert all(
        len(set(path)) == len(path) == len(set(loop))
        for path, loop in zip(steps, loops, strict=True)
    )
    assert {edge for path in steps for edge in path} & endless == closed
    assert len(set(loops)) == len(loops)
