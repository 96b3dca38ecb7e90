"""A converted file means what its settings say, whatever their values are."""

from collections.abc import Mapping

from hypothesis import example, given, settings
from hypothesis import strategies as st

from replication.config.flat import flat_settings
from replication.config.values import Raw, items, text
from replication.features.mm2_import import FileSettings, to_yaml
from tests.support.settings import ONE_FLOW

TEXTS = (
    "A.client.id",
    "B.producer.client.id",
    "A.ssl.key.password",
    "A->B.source.consumer.client.id",
)
LISTS = ("topics", "A->B.groups", "A->B.topics.exclude")
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def read_back(values: Mapping[str, Raw]) -> dict[str, Raw]:
    """The settings of the file that is written for *values*."""
    flat = flat_settings(
        to_yaml("mm2.properties", FileSettings(values)).encode(), is_properties=False
    )
    assert flat.problems == []
    return flat.settings


@given(st.dictionaries(st.sampled_from(TEXTS), VALUES))
@example({"A.client.id": "no"})
@example({"A.client.id": "012"})
@example({"A.client.id": "null"})
@example({"A.client.id": "a: b # c"})
@example({"A.client.id": "\u2028\x85\t"})
@example({"A.client.id": "a\r\nb"})
def test_a_text_is_read_as_it_was_written(values: dict[str, str]) -> None:
    found = read_back({**ONE_FLOW, **values})

    assert {key: found[key] for key in values} == values


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(LISTS), st.lists(VALUES).map(tuple)))
@example({"topics": ("a,b", "[x]", "'", "it's", "true")})
@example({"topics": ("NO", "on", "Null", "orders")})
def test_a_list_has_its_items(values: dict[str, tuple[str, ...]]) -> None:
    found = read_back({**ONE_FLOW, **values})

    assert {key: items(found[key]) for key in values} == {
        key: items(raw) for key, raw in values.items()
    }


@given(st.sampled_from(TEXTS), VALUES, VALUES)
def test_a_comment_or_a_remark_adds_no_setting(key: str, comment: str, remark: str) -> None:
    values = {**ONE_FLOW, key: "x"}
    written = to_yaml("a.properties", FileSettings(values, {key: [comment]}, [remark]))

    found = flat_settings(written.encode(), is_properties=False)

    assert found.problems == []
    assert {name: text(raw) for name, raw in found.settings.items()} == values
