"""Configuration files mean the same as YAML and as .properties, and other files are refused."""

from pathlib import Path

import pytest
import yaml

from replication.config.file import load
from replication.config.flat import parse_properties
from replication.config.keys import KEYS, REPLICATION_FACTORS, reference
from replication.errors import ConfigError
from tests.support.one_flow_files import PROPERTIES, YAML, problems_of
from tests.support.settings import load_file

CONF = Path(__file__).parents[2] / "conf"
KAFKAS_SAMPLE = """
# specify any number of cluster aliases
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
replication.policy.separator = _
sync.topic.acls.enabled = false
emit.heartbeats.interval.seconds = 5
"""


def test_yaml_and_properties_mean_the_same(tmp_path: Path) -> None:
    (one,) = load_file(tmp_path, YAML).flows
    (other,) = load_file(tmp_path, PROPERTIES, "c.properties").flows

    assert one == other


def test_kafkas_sample_file_is_accepted(tmp_path: Path) -> None:
    config = load_file(tmp_path, KAFKAS_SAMPLE, "mm2.properties")

    assert [(str(one.flow), one.topics, one.replication_factor) for one in config.flows] == [
        ("A->B", (".*",), 1),
        ("B->A", (".*",), 1),
    ]


@pytest.mark.parametrize("name", ["example.yaml", "reference.yaml"])
def test_the_files_in_conf_are_valid(name: str) -> None:
    assert load(CONF / name, environ={}, default_state_dir="/state").flows


def test_the_example_has_all_factors_that_a_single_broker_needs() -> None:
    written = yaml.safe_load((CONF / "example.yaml").read_text(encoding="utf-8"))

    assert {key: written.get(key) for key in REPLICATION_FACTORS} == dict.fromkeys(
        REPLICATION_FACTORS, 1
    )


def test_the_reference_is_generated_from_the_keys() -> None:
    assert (CONF / "reference.yaml").read_text(encoding="utf-8") == reference()


def test_the_defaults_in_the_reference_are_the_real_ones(tmp_path: Path) -> None:
    (reference,) = load(CONF / "reference.yaml", environ={}, default_state_dir="/s").flows
    # what a file writes of a client reaches it, also the default
    written = "".join(f"{key.name}: {key.default}\n" for key in KEYS.values() if key.effect)
    (bare,) = load_file(
        tmp_path,
        YAML.replace("a:1", "localhost:9092").replace("b:2", "localhost:9093") + written,
    ).flows

    assert reference == bare


def test_yaml_scalars_become_text(tmp_path: Path) -> None:
    content = YAML + "A.consumer: {check.crcs: True, client.id: 007, client.rack: ~}\n"

    (flow,) = load_file(tmp_path, content).flows

    assert flow.source.consumer == {
        "bootstrap.servers": "a:1",
        "check.crcs": "true",
        "client.id": "007",
        "client.rack": "",
    }


def test_an_item_of_a_yaml_list_may_contain_a_comma(tmp_path: Path) -> None:
    content = YAML + "topics: ['a{1,3}', b]\n"

    assert load_file(tmp_path, content).flows[0].topics == ("a{1,3}", "b")


def test_own_keys_win_over_merged_mappings(tmp_path: Path) -> None:
    content = YAML + "A.consumer: &c {fetch.min.bytes: 1, client.id: a}\nB.consumer:\n  <<: *c\n"

    (flow,) = load_file(tmp_path, content + "  client.id: b\n").flows

    assert flow.target.consumer == {
        "bootstrap.servers": "b:2",
        "fetch.min.bytes": "1",
        "client.id": "b",
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", "must map keys to values, for example clusters: [east, west]", id="empty"),
        pytest.param(
            "- a", "must map keys to values, for example clusters: [east, west]", id="a list"
        ),
        pytest.param(
            "a: [1",
            "line 1, column 6: invalid YAML: expected ',' or ']', but got '<stream end>'",
            id="syntax",
        ),
        pytest.param(
            "a:\n\tb: 1",
            "line 2, column 1: invalid YAML: found character '\\t' that cannot start any token; "
            "indent with spaces, not tabs",
            id="tab",
        ),
    ],
)
def test_a_file_that_is_no_yaml_mapping(tmp_path: Path, content: str, expected: str) -> None:
    assert problems_of(tmp_path, content) == [expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(
            "A:\n  client.id: x\nA.client.id: y\n",
            "A.client.id: set twice, on lines 7 and 8; remove one",
            id="twice",
        ),
        pytest.param(
            "topics: [[a]]\n",
            "topics: list items must be plain values (line 6)",
            id="nested list",
        ),
        pytest.param(
            "A: &a {x: *a}\n", "A.x: refers to itself (line 6); remove the alias", id="itself"
        ),
        pytest.param("[a]: b\n", "line 6: a key must be a plain string", id="list as key"),
    ],
)
def test_yaml_that_is_not_a_configuration_is_rejected(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert problems_of(tmp_path, YAML + content)[0] == expected


def test_an_unreadable_file_is_named_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    found: list[str] = []
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(ConfigError) as caught:
            load(path, environ={}, default_state_dir="/s")
        found += caught.value.problems

    assert found == [
        "no such file; check the path after --config",
        "cannot be read (Is a directory); name a file that this user can read",
        "byte 3: not UTF-8; save the file as UTF-8",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=b\nc:d\ne f", [("a", "b", 1), ("c", "d", 2), ("e", "f", 3)], id="signs"),
        pytest.param(" a = b ", [("a", "b ", 1)], id="blanks before, not after"),
        pytest.param("a==b", [("a", "=b", 1)], id="one sign only"),
        pytest.param("#a\n !b\n\nc=1", [("c", "1", 4)], id="comments and empty lines"),
        pytest.param("a=1,\\\n   2,\\\n#3", [("a", "1,2,#3", 1)], id="continued"),
        pytest.param("a=b\\\\\nc=d", [("a", "b\\", 1), ("c", "d", 2)], id="even backslashes"),
        pytest.param("a\\ b\\=c\\:d=e", [("a b=c:d", "e", 1)], id="escaped key"),
        pytest.param("a=\\u00e9\\t\\x", [("a", "é\tx", 1)], id="escaped value"),
        pytest.param("a", [("a", "", 1)], id="key alone"),
        pytest.param("=b", [("", "b", 1)], id="empty key"),
        pytest.param("a=1\r\nb=2\rc=3", [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)], id="ends"),
        pytest.param("a=b\\", [("a", "b", 1)], id="backslash at the end"),
        pytest.param("\\\na=b", [("a", "b", 2)], id="nothing continued"),
        pytest.param("\\\n#c\na=b", [("a", "b", 3)], id="nothing continued by a comment"),
    ],
)
def test_properties_are_read_as_in_java(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert list(parse_properties(text)) == expected


def test_an_invalid_unicode_escape_is_reported_with_its_line(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "a=1\nb=\\u12", "c.properties") == [
        "line 2: \\u must be followed by four hexadecimal digits"
    ]
