"""Which calls of ``from_json`` become a column of their own."""

import pytest

from replication.spark.copies import parsed_once

ORDER = "from_json(cast(value as string), 'id int, note string')"
FAST = "from_json(value, 'a int, b int', map('mode', 'FailFast'))"
OTHER = "from_json(cast(value as string), 'id int')"


def test_a_call_that_is_made_twice_becomes_one_column() -> None:
    texts = [f"{ORDER}.id", f"concat({ORDER}.note, FROM_JSON (key, 'a int').a)", f"{OTHER}.id"]

    changed, columns = parsed_once(texts)

    assert columns == {"_parsed_0": ORDER}
    assert changed == [
        "_parsed_0.id",
        "concat(_parsed_0.note, FROM_JSON (key, 'a int').a)",
        texts[2],
    ]


def test_what_only_looks_like_a_call_stays() -> None:
    call = 'from_json(key, "a int")'
    changed, _ = parsed_once([f"concat({call}.a, 'a {call}', {call}.a)"])
    assert changed == [f"concat(_parsed_0.a, 'a {call}', _parsed_0.a)"]


def test_of_nested_calls_the_outer_one_is_the_column() -> None:
    nested = f"from_json({ORDER}.note, 'a int', map('mode', 'PERMISSIVE'))"
    changed, columns = parsed_once([f"{nested}.a + {nested}.a"])
    assert (changed, columns) == (["_parsed_0.a + _parsed_0.a"], {"_parsed_0": nested})


def test_brackets_within_texts_end_nothing() -> None:
    call = """from_json(regexp_replace(cast(value as string), '[)\\'(]', "("), 'a int')"""
    assert parsed_once([f"{call}.a", f"{call}.a"])[1] == {"_parsed_0": call}


@pytest.mark.parametrize(
    "text",
    [
        f"{ORDER}.id",
        f"concat({ORDER}.note, {OTHER}.id)",
        f"concat({ORDER}.note, '{{}}', cast({OTHER} as string))",
        f"transform(array(1), x -> {ORDER}.id) = transform(array(1), x -> {ORDER}.id)",
        f"{ORDER}.id /* {ORDER} */ + {ORDER}.id",
        f"{ORDER}.id -- {ORDER}\n + {ORDER}.id",
        "from_json(r'\\', 'a int').a + from_json(r'\\', 'a int').a",
        f"CASE WHEN true THEN {FAST}.a ELSE {FAST}.b END",
        "'from_json(1)' = 'from_json(1)'",
        "value.from_json(1) = value.from_json(1)",
        "from_json = from_json",
        "from_json(from_json(",
    ],
)
def test_anything_else_stays_as_it_is(text: str) -> None:
    assert parsed_once([text]) == ([text], {})
