"""Include and exclude lists: items match whole names, exclusion wins, Java's syntax works."""

import shlex
import time

import pytest

from replication.config.changes import pattern_problems
from replication.mm2.filters import NameFilter, excluding, pattern_problem


@pytest.mark.parametrize(
    ("include", "exclude", "name", "expected"),
    [
        pytest.param(("a",), (), "a", True, id="name"),
        pytest.param(("a",), (), "aa", False, id="a part of the name"),
        pytest.param(("a|ab",), (), "ab", True, id="alternatives, whole name"),
        pytest.param(("a", "b.*"), (), "bcd", True, id="any item"),
        pytest.param((".*",), ("b",), "b", False, id="exclusion wins"),
        pytest.param((), (), "a", False, id="nothing included"),
        pytest.param(("a{1,3}",), (), "aaa", True, id="comma"),
        pytest.param((r"\Qa.b\E.*",), (), "a.bc", True, id="Java's quote"),
        pytest.param((r"\Qa.b\E",), (), "axb", False, id="Java's quote is literal"),
        pytest.param((r"a\Q.",), (), "a.", True, id="Java's quote, left open"),
        pytest.param(("(?<x>a)b",), (), "ab", True, id="Java's group name"),
        pytest.param(("(?<=a)b|a",), (), "a", True, id="look-behind is no group name"),
        pytest.param(("(?i)A", "b"), (), "a", True, id="flag"),
        pytest.param(("(?i)A", "b"), (), "B", False, id="flag of one item only"),
        pytest.param((r"\w+",), (), "é", False, id="ASCII classes, as in Java"),
        pytest.param((f"[{'ab' * 2000}]+",), (), "ab", True, id="a class of many characters"),
        pytest.param((f"[a{'&&[ab]' * 1500}]+",), (), "b", False, id="many intersections"),
        pytest.param(("a{2,3}+a",), (), "aaa", False, id="possessive, two at least"),
        pytest.param(("a{2,3}+a",), (), "aaaa", True, id="possessive, three at most"),
    ],
)
def test_which_names_a_filter_accepts(
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    name: str,
    *,
    expected: bool,
) -> None:
    assert NameFilter(include, exclude).accepts(name) is expected


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("orders", "--exclude orders"),
        ("orders-v_1", "--exclude orders-v_1"),
        ("orders.v1", r"--exclude 'orders\.v1'"),
        ("." * 249, f"--exclude '{chr(92)}.{(chr(92) + '.') * 248}'"),
        ("it's, (a #1) [+*\\]\"", r"""--exclude 'it\x27s\x2C\ \(a\ \#1\)\ \[\+\*\\\]\x22'"""),
        ("größe 😀", r"--exclude 'größe\ \😀'"),
    ],
)
def test_a_printed_option_leaves_out_the_one_name(name: str, option: str) -> None:
    assert excluding(name) == option
    _, item = shlex.split(option)
    assert list(pattern_problems(item, is_of_groups=True)) == []
    assert NameFilter((item,)).accepts(name)
    assert not NameFilter((item,)).accepts(name.replace(".", "x") + "x" * ("." not in name))


@pytest.mark.parametrize(
    "item", ["a(", "*", r"\p{Nope}", r"\p{}", "[&&]", "[a-z", "(?i", r"(a)\1", "(?>a)"]
)
def test_an_unsupported_pattern_is_a_problem(item: str) -> None:
    assert str(pattern_problem(item)).startswith(f"{item!r} is not a supported pattern")


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("(?=.*" * 8 + "b" + ")" * 8 + ".*", id="look-aheads"),
        pytest.param("(?!.*" * 8 + "b" + ")" * 8 + ".*", id="negative look-aheads"),
        pytest.param(".*" + "(?<=" * 8 + "b.*" + ").*" * 8, id="look-behinds"),
        pytest.param("(?=(.*(?<=(b.*" * 6 + ")))).*" * 6, id="both, in turn"),
        pytest.param("((((a*b|a)*c|a)*d|a)*e|a)*f", id="repetitions"),
        pytest.param("((((a{0,200}b|a){0,200}c|a){0,200}d|a){0,200}e|a)*f", id="counted"),
        pytest.param("((((a*+b|a)*c|a)*d|a)*e|a)*f", id="possessive"),
        pytest.param("((?=(a|(?=(a*b|a)*c|a)*d|a)).)*f", id="repetitions in look-aheads"),
    ],
)
def test_no_depth_makes_a_pattern_slow(pattern: str) -> None:
    assert pattern_problem(pattern) is None
    began = time.process_time()

    NameFilter((pattern,)).accepts("a" * 249)  # the longest name of a topic

    assert time.process_time() - began < 2
