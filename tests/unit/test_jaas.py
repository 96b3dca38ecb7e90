"""``sasl.jaas.config``, read as Kafka reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.config.client_keys import JaasError, parse_jaas


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("M required;", [("M", {})], id="no options"),
        pytest.param("M REQUIRED a=b c-d=e_f;", [("M", {"a": "b", "c-d": "e_f"})], id="words"),
        pytest.param('M required a=\'x y\' "b"="z";', [("M", {"a": "x y", "b": "z"})], id="quotes"),
        pytest.param(r'M required a="\"\\\n\101\x";', [("M", {"a": '"\\\nAx'})], id="escapes"),
        pytest.param(
            "// c\nM /* x=y; */ required / rest of line\n a=b;", [("M", {"a": "b"})], id="comments"
        ),
        pytest.param("M required a='//x /*y*/';", [("M", {"a": "//x /*y*/"})], id="no comments"),
        pytest.param(
            "M required a=b; N optional c=d;", [("M", {"a": "b"}), ("N", {"c": "d"})], id="two"
        ),
        pytest.param("M required a=b a=c;", [("M", {"a": "c"})], id="the last counts"),
        pytest.param('M required a="";', [("M", {"a": ""})], id="empty"),
    ],
)
def test_jaas_entries_are_read_as_in_kafka(
    text: str, expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert [(module.name, module.options) for module in parse_jaas(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "no login module found", id="empty"),
        pytest.param("hunter2", "expected 'required' after the class name", id="one word"),
        pytest.param("M maybe;", "expected 'required' after the class name", id="flag"),
        pytest.param("M required a=b", "an entry must end with ';'", id="open"),
        pytest.param("M required a=12;", 'option 1 needs double quotes: key="value"', id="number"),
        pytest.param(
            "M required a=b c;", "expected key=value or ';' after option 1", id="no value"
        ),
        pytest.param("M required -a=b;", "expected key=value or ';' after option 0", id="dash"),
        pytest.param("; M", "expected a login module's class name, found a symbol", id="symbol"),
    ],
)
def test_an_invalid_jaas_text_is_rejected_without_its_values(text: str, expected: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)

    assert str(caught.value) == expected


@given(st.text(st.sampled_from("ab1 \"'\\/*;=#é\t")))
def test_a_quoted_password_is_read_back_unchanged(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')

    (module,) = parse_jaas(f'M required password="{quoted}";')

    assert module.options == {"password": password}
