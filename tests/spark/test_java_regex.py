"""Names match as by Java's own engine, ``java.util.regex``, for every form that is supported."""

# ruff: noqa: S311  # a table of expressions; a seeded random choice

import random
import time

import pytest
from py4j.java_gateway import JVMView
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from replication.mm2.filters import NameFilter, pattern_problem
from replication.spark.session import jvm_of

NAMES = (
    *("", "a", "b", "ab", "aab", "abb", "aaa", "aaaa", "abab", "A", "aB", "orders", "orders-v1"),
    *("orders.eu.v12", "__consumer_offsets", "mm2-offsets.A.internal", "my.heartbeats", "x_1", "-"),
    *("a-b", "a&b", "[a]", "a]", "{", "a{2}", "é", "É", "ß", "a b", "a\tb", "a\n", "\n", "1", "٣"),
    *(
        "$a",
        "^a",
        "a$",
        "a.b",
        "a\\b",
        "A.orders",
        "B.orders",
        "0x",
        "Zz",
        "a:b",
        "alpha",
        "a" * 60,
    ),
)
PATTERNS = (
    *("a", "a|ab", "a*", "a+b", "a?b*", "(a|b)*", "(ab)+", "a{2}", "a{2,}", "a{1,2}b", "(a?){3}"),
    *("a{2}{3}", "a{0}", "a*?b", "a+?", "a??b", "a*+b", "a*+a", "a++b", "a?+a", "a{1,2}+a"),
    *(
        r"\w+",
        r"\d",
        r"\D+",
        r"\S*",
        r"\s",
        r"\W",
        r"\h",
        r"\v",
        r"\R",
        r"\bab\b",
        r"\Ba",
        r"a\b.b",
    ),
    *("^a$", r"\Aa\z", r"a\Z", "^a", "a$", "(^a|b)$", ".", ".*", "(?s).*", "(?s:.)", "a\\n"),
    *("(?i)ORDERS", "(?i)[A-B]+", "(?i:A)b", "(?i)A(?-i)B", "a(?i)b", "(?i)É", "(?u)x", "(?m)^a$"),
    *("(?!__).*", "^(?!mm2|__).*$", "(?=a).*b", ".*(?<=b)", ".*(?<!b)", "(?<n>a)b", "(?:a|b)+"),
    *(
        r"\Qa.b\E",
        r"\Qa.b",
        r"\Q[a]\E",
        r"\Qab\E+",
        r"a\Q\Eb",
        r"[\Qa-\E]+b",
        r"a\.b",
        r"\$a",
        r"\^a",
    ),
    *("[ab]+", "[^ab]*", "[a-z&&[^b]]+", "[a-z&&[ab]]+", "[a[bc]]+", "[^a[b]]+", "[]a]+", "[a-]+"),
    *(
        "[-a]+",
        "[a&b]+",
        "[a&&b]",
        "[[:alpha:]]+",
        r"[\w.-]+",
        r"[\]a\[]+",
        r"[^\d]+",
        "[a^]+",
        "[^^]+",
    ),
    *(
        r"\p{Alpha}+",
        r"\p{Lower}+",
        r"\P{Lower}+",
        r"(?i)\p{Lower}+",
        r"\p{Punct}",
        r"\p{L}+",
        r"\pL+",
    ),
    *(
        r"\p{Lu}",
        r"\p{IsAlphabetic}+",
        r"[\p{L}&&[^\p{Lu}]]+",
        r"\p{Digit}",
        r"\p{XDigit}+",
        r"\p{Graph}+",
    ),
    *(
        r"\p{javaLowerCase}+",
        r"\x61",
        r"\x{61}b",
        r"\u0061",
        r"\0141",
        r"\t",
        r"a\tb",
        r"\cA",
        r"\e",
    ),
    *(
        "",
        "|a",
        "a|",
        "()",
        "(|a)b",
        "((a|b)c?)*",
        "a{3}|b",
        "[.]",
        "[*+?]",
        r"mm2.*\.internal",
        "__.*",
    ),
    # Invalid in Java, too
    *(
        "a(",
        "a)",
        "*",
        "+a",
        "a**",
        "[a",
        "[z-a]",
        "(?i",
        r"\p{Nope}",
        "a{2,1}",
        "{",
        "a{",
        "\\",
        r"\y",
    ),
    *("(?<1a>b)", "(?z)a", "[a&&", r"\xg1", r"\u12"),
)
UNSUPPORTED = (r"(a)\1", r"(?<n>a)\k<n>", "(?>a+)b", "(ab)*+", r"\X", r"\p{IsGreek}", "(?x)a b")


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> JVMView:
    """Spark's own: PySpark asks it about each error, whichever JVM the error comes from."""
    return jvm_of(spark)


def java_says(jvm: JVMView, pattern: str, names: tuple[str, ...] = NAMES) -> list[bool] | None:
    """For each of *names* whether *pattern* matches it; None if Java rejects the pattern."""
    try:
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException:
        return None
    return [compiled.matcher(name).matches() for name in names]


def we_say(pattern: str) -> list[bool] | None:
    if pattern_problem(pattern) is not None:
        return None
    return [NameFilter((pattern,)).accepts(name) for name in NAMES]


def test_every_supported_form_matches_as_in_java(jvm: JVMView) -> None:
    for pattern in PATTERNS:
        assert we_say(pattern) == java_says(jvm, pattern), pattern


def test_random_expressions_match_as_in_java(jvm: JVMView) -> None:
    seeded = random.Random(13)
    parts = (
        "a",
        "b",
        "(",
        ")",
        "|",
        "*",
        "+",
        "?",
        "[ab]",
        "[^a]",
        ".",
        "{1,2}",
        "(?!",
        r"\w",
        "^",
    )
    compared = 0
    for _ in range(400):
        pattern = "".join(seeded.choices(parts, k=seeded.randint(1, 9)))
        ours = we_say(pattern)
        if ours is not None:
            compared += 1
        if ours is not None or "not supported" not in (pattern_problem(pattern) or ""):
            names = ("", "a", "b", "ab", "ba", "aab", "abb", "c")
            java = java_says(jvm, pattern, names)
            mine = None if ours is None else [NameFilter((pattern,)).accepts(n) for n in names]
            assert mine == java, pattern
    assert compared > 50, "too few valid expressions"


@pytest.mark.parametrize("pattern", UNSUPPORTED)
def test_a_form_that_java_has_and_this_has_not_is_named(jvm: JVMView, pattern: str) -> None:
    assert java_says(jvm, pattern) is not None
    assert "not supported" in str(pattern_problem(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)+b",
        "(a*)*b",
        "((a?){300}){300}b",
        "(.*)*(.*)*(.*)*x",
        "(?!(a+)+b).*",
        "a{999999999}",
    ],
)
def test_no_expression_takes_long(pattern: str) -> None:
    began = time.process_time()

    NameFilter((pattern,)).accepts("a" * 249 + "!")

    assert time.process_time() - began < 5.0  # by backtracking: hours


@pytest.mark.parametrize("pattern", ["(" * 3000 + ")" * 3000, "[" * 3000, "a" * 20_000])
def test_an_expression_beyond_any_use_is_a_problem(pattern: str) -> None:
    problem = str(pattern_problem(pattern))

    assert "nested deeper than" in problem or "longer than" in problem
    assert len(problem) < 500
