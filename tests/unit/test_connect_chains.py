"""Files with chains of Kafka Connect: read as this mirror's transforms, or refused."""

from pathlib import Path

import pytest
import yaml

from replication.config.file import load
from replication.config.tree import MirrorConfig
from replication.errors import ConfigError
from replication.features.mm2_import import converted
from replication.model import Transform
from tests.support.settings import ONE_FLOW, parse_settings

KAFKA = "org.apache.kafka.connect.transforms"
FILTER = {
    "transforms": "keep",
    "transforms.keep.type": f"{KAFKA}.Filter",
    "transforms.keep.predicate": "copies",
    "predicates": "copies",
    "predicates.copies.type": f"{KAFKA}.predicates.TopicNameMatches",
    "predicates.copies.pattern": r"A\.(orders|bills)",
}


def of_flow(chain: dict[str, str], flow: str = "A->B") -> dict[str, str]:
    """The keys of *chain* as those of *flow*."""
    return {f"{flow}.{key}": value for key, value in chain.items()}


def problems(settings: dict[str, str]) -> list[str]:
    """What is wrong with a file of one flow that has *settings* as well."""
    with pytest.raises(ConfigError) as caught:
        parse_settings({**ONE_FLOW, **settings})
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "concat('A.', topic)"),
        ({"replication.policy.separator": "_"}, "concat('A_', topic)"),
        ({"A->B.replication.policy.separator": ""}, "concat('A', topic)"),
        (
            {"replication.policy.class": "IdentityReplicationPolicy"},
            "if(endswith(topic, 'heartbeats'), concat('A.', topic), topic)",
        ),
        ({"source.cluster.alias": "", "replication.policy.separator": ""}, "topic"),
    ],
)
def test_a_chain_of_a_flow_becomes_its_transforms(more: dict[str, str], name: str) -> None:
    config = parse_settings({**ONE_FLOW, **of_flow(FILTER), **more})

    condition = rf"{name} RLIKE '^(?:A\\.(orders|bills))$'"
    (flow,) = config.flows
    assert flow.transforms == (Transform(name="keep", topics=(".*",), filter=f"NOT ({condition})"),)
    assert "A->B.transforms: is read as A->B.replication.transforms" in config.notes


def test_the_lists_may_stand_at_top_level_as_in_mirror_maker_2() -> None:
    settings = of_flow(FILTER)
    for key in ("transforms", "predicates"):
        settings[key] = settings.pop(f"A->B.{key}")

    (flow,) = parse_settings({**ONE_FLOW, **settings}).flows

    assert [one.name for one in flow.transforms] == ["keep"]


def test_what_mirror_maker_2_drops_at_top_level_is_refused_with_the_key_to_write() -> None:
    assert any(
        "transforms.keep.type: has no effect, as in MirrorMaker 2: it is a flow key; write "
        "A->B.transforms.keep.type" in problem
        for problem in problems(FILTER)
    )
    assert problems({"transforms": "a"}) == [
        "transforms: lists what no flow defines; write for example A->B.transforms.a.type"
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"transforms": "r", "transforms.r.type": f"{KAFKA}.RegexRouter"},
            f"A->B.transforms.r.type: '{KAFKA}.RegexRouter' changes a record's topic",
        ),
        (
            {**FILTER, "replication.policy.class": "com.acme.Policy"},
            "A->B.predicates.copies.pattern: matches the remote topic's name, which only your",
        ),
        (
            {**FILTER, "replication.transforms": "x", "replication.transforms.x.filter": "true"},
            "A->B.transforms: stands beside replication.transforms; write all transforms there",
        ),
        (
            {"transforms": "a b", "transforms.a b.type": "Filter"},
            "A->B.transforms: 'a b' is not a name of a transform",
        ),
    ],
)
def test_a_chain_that_cannot_be_read_is_refused(settings: dict[str, str], said: str) -> None:
    assert any(problem.startswith(said) for problem in problems(of_flow(settings))), said


def test_an_empty_chain_is_none_and_what_no_list_names_has_no_effect() -> None:
    settings = {"transforms": "", "transforms.a.type": "x.Y", "predicates.p.type": "x.Z"}

    config = parse_settings({**ONE_FLOW, **of_flow(settings)})

    assert config.flows[0].transforms == ()
    assert config.warnings == (
        "A->B.transforms.a.type: has no effect: transforms does not list it",
        "A->B.predicates.p.type: has no effect: predicates does not list it",
    )


def test_keys_of_a_prefix_of_cloudera_are_read_too() -> None:
    settings = {f"A->B.connectors.{key}": value for key, value in FILTER.items()}

    (flow,) = parse_settings({**ONE_FLOW, **settings}).flows

    assert [one.name for one in flow.transforms] == ["keep"]


STRIMZI = f"""
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  target: {{alias: B, bootstrapServers: 'b:1'}}
  mirrors:
  - source: {{alias: A, bootstrapServers: 'a:1'}}
    sourceConnector:
      config:
        header.converter: org.apache.kafka.connect.storage.SimpleHeaderConverter
        transforms: drop, stamp
        transforms.drop.type: {KAFKA}.DropHeaders
        transforms.drop.headers: trace,span
        transforms.stamp.type: {KAFKA}.InsertHeader
        transforms.stamp.header: origin
        transforms.stamp.value.literal: eu
    checkpointConnector:
      config: {{transforms: x, transforms.x.type: com.acme.Y}}
"""


def imported(tmp_path: Path, content: str, name: str) -> tuple[str, MirrorConfig]:
    """The text that import makes of a file, and what that is read as."""
    (tmp_path / name).write_text(content)
    text = converted(str(tmp_path / name))
    (tmp_path / "mirror.yaml").write_text(text)
    return text, load(tmp_path / "mirror.yaml", environ={}, default_state_dir="/state")


def test_a_chain_of_strimzi_is_imported_as_transforms(tmp_path: Path) -> None:
    text, config = imported(tmp_path, STRIMZI, "resource.yaml")

    assert config.flows[0].transforms == (
        Transform(name="drop", topics=(".*",), headers_remove=("trace", "span")),
        Transform(name="stamp", topics=(".*",), headers_add=(("origin", "cast('eu' AS binary)"),)),
    )
    assert yaml.safe_load(text)["A->B"]["replication.transforms"] == ["drop", "stamp"]
    assert "# To do: A->B has transforms of the checkpointConnector" in text
    assert "# A->B.transforms.stamp.value.literal: is written as its text in UTF-8" in text
    assert "com.acme.Y" not in text


def test_a_chain_with_a_problem_stays_refused_after_the_import(tmp_path: Path) -> None:
    content = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
    chain = {**FILTER, "transforms": "keep,bad", "transforms.bad.type": "com.acme.Y"}
    content += "".join(f"{key}={value}\n" for key, value in of_flow(chain, "a->b").items())

    with pytest.raises(ConfigError, match=r"'com\.acme\.Y' has no counterpart"):
        imported(tmp_path, content.replace("\\", "\\\\"), "mm2.properties")

    text = (tmp_path / "mirror.yaml").read_text()
    assert "# To do: a->b.transforms.bad.type: 'com.acme.Y' has no counterpart" in text


def test_a_chain_with_a_reference_is_read_when_the_value_is_known(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("trace")
    content = (
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
        "a->b.transforms=d\na->b.transforms.d.type=DropHeaders\n"
        f"a->b.transforms.d.headers=${{file:{tmp_path}/name}}\n"
    )

    text, config = imported(tmp_path, content, "mm2.properties")

    assert f"${{file:{tmp_path}/name}}" in text
    assert config.flows[0].transforms[0].headers_remove == ("trace",)
