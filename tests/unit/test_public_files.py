"""Files as people publish them, written anew: each runs, or is refused with a reason.

What ``import`` makes of a file means the same as the file.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from replication.config.file import load
from replication.config.tree import MirrorConfig
from replication.errors import ConfigError
from replication.features.mm2_import import converted
from replication.mm2.policy import IdentityPolicy
from tests.support.settings import ONE_FLOW, parse_settings

FILES = Path(__file__).parents[1] / "files"
ENVIRONMENT = {"A_SERVERS": "a:1", "B_SERVERS": "b:1", "B_PASSWORD": "p"}
RUN = {
    "one-way.properties": ["plant->office"],
    "active-active.properties": ["lyon->turin", "turin->lyon"],
    "hub-and-spoke.properties": ["north->hub", "south->hub", "west->hub"],
    "identity.properties": ["old->new"],
    "no-prefix.properties": ["cellar->cloud"],
    "scram.properties": ["shop->lake"],
    "providers.properties": ["a->b"],
    "weak-producer.properties": ["src->dst"],
    "kafka-3.9.properties": ["koeln->bonn"],
    "srm.properties": ["primary->secondary"],
}
CONVERTED = {"strimzi.yaml": ["live->dr"], "connectors.yaml": ["east->west"]}
WARNED = {
    "hub-and-spoke.properties": {
        "team",
        "west->hub.topics",
        "north.offset-syncs.topic.replication.factor",
        "south.offset-syncs.topic.replication.factor",
    },
    "no-prefix.properties": {"cellar.checkpoints.topic.replication.factor"},
    "weak-producer.properties": {
        "tasks.max",
        "dst.producer.acks",
        "dst.producer.retries",
        "dst.producer.enable.idempotence",
        "dst.producer.max.in.flight.requests.per.connection",
        "src->dst.producer.override.delivery.timeout.ms",
        "src.consumer.interceptor.classes",
    },
}


def read(file: Path) -> MirrorConfig:
    return load(file, environ=ENVIRONMENT, default_state_dir="/state")


def imported(name: str, folder: Path) -> MirrorConfig:
    file = folder / f"{name}.yaml"
    file.write_text(converted(str(FILES / name)), encoding="utf-8")
    return read(file)


def flows_of(config: MirrorConfig) -> list[str]:
    return [str(flow.flow) for flow in config.flows]


def test_every_file_is_tried() -> None:
    assert {file.name for file in FILES.iterdir()} == {
        *RUN, *CONVERTED, "transforms.properties"
    }  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_a_public_file_runs(name: str) -> None:
    config = read(FILES / name)

    assert flows_of(config) == RUN[name]
    assert {warning.partition(":")[0] for warning in config.warnings} == WARNED.get(name, set())


@pytest.mark.parametrize("name", RUN)
def test_an_imported_file_means_the_same(name: str, tmp_path: Path) -> None:
    original, yaml = read(FILES / name), imported(name, tmp_path)

    assert replace(yaml, file="", warnings=(), notes=()) == replace(
        original, file="", warnings=(), notes=()
    )
    assert [note for note in yaml.notes if "has no effect" in note] == []
    assert [warning for warning in yaml.warnings if "no effect" in warning] == []


def test_what_an_imported_file_says() -> None:
    text = converted(str(FILES / "one-way.properties"))

    assert "  # what is replicated\n  enabled: true\n" in text
    assert "  topics: ['sensors\\..*', 'machine-[0-9]+']\n" in text
    assert "\ntasks.max: 8\n" in text


TAKE_OVER = "  # replication.takeover.topic: "


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("one-way.properties", ["mm2-offsets.plant.internal"]),
        ("active-active.properties", ["mm2-offsets.lyon.internal", "mm2-offsets.turin.internal"]),
        ("strimzi.yaml", ["mirrormaker2-cluster-offsets"]),
    ],
)
def test_an_imported_file_names_the_topic_with_the_positions_of_mirror_maker_2(
    name: str, topics: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror-user").mkdir()
    (tmp_path / "mirror-user" / "password").write_text("pw")
    monkeypatch.setattr("replication.features.mm2_import.SECRETS", str(tmp_path))
    text = converted(str(FILES / name))
    file = tmp_path / "mirror.yaml"

    file.write_text(text)
    before = [flow.takeover_topic for flow in read(file).flows]
    file.write_text(text.replace(TAKE_OVER, TAKE_OVER.replace("# ", "")))

    assert before == [""] * len(topics)
    assert [flow.takeover_topic for flow in read(file).flows] == topics


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("offset.storage.topic=own\nb.offset.storage.topic=other\n", "own"),
        ("b.offset.storage.topic=other\n", "other"),
    ],
)
def test_a_topic_of_positions_with_a_name_of_its_own(
    settings: str, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters=a,b\na->b.enabled=true\nb->a.enabled=false\n{settings}")

    lines = [line for line in converted(str(file)).splitlines() if TAKE_OVER in line]

    assert lines == [f"{TAKE_OVER}{expected}"]


def test_references_stay_references() -> None:
    text = converted(str(FILES / "providers.properties"))

    assert "  bootstrap.servers: ${env:A_SERVERS}\n" in text
    assert 'password="${env:B_PASSWORD}"' in text
    assert "To do" not in text


def test_a_file_whose_records_would_differ_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        read(FILES / "transforms.properties")

    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [
        "a->b.transforms.route.type"
    ]


@pytest.mark.parametrize("name", CONVERTED)
def test_a_resource_of_strimzi_is_refused_with_the_command_that_converts_it(name: str) -> None:
    with pytest.raises(ConfigError, match="python -m replication import"):
        read(FILES / name)


def test_a_mirror_maker_of_strimzi_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "mirror-user"
    secret.mkdir()
    (secret / "password").write_text("pw")
    monkeypatch.setattr("replication.features.mm2_import.SECRETS", str(tmp_path))

    config = imported("strimzi.yaml", tmp_path)

    (flow,) = config.flows
    assert flows_of(config) == CONVERTED["strimzi.yaml"]
    assert flow.topics == ("orders|invoices.*",)
    assert flow.topics_exclude == ("orders-test",)
    assert flow.policy == IdentityPolicy("", "", source="live")
    assert (flow.replication_factor, flow.acls.sync_enabled) == (-1, False)
    assert flow.groups.sync_enabled
    assert flow.groups.checkpoints_interval_seconds == 15
    assert flow.target.producer["compression.type"] == "lz4"
    assert flow.target.producer["batch.size"] == "327680"
    assert flow.source.consumer["security.protocol"] == "SASL_SSL"
    assert flow.source.consumer["ssl.truststore.type"] == "PEM"
    assert 'username="mirror" password="pw";' in flow.source.consumer["sasl.jaas.config"]
    assert config.heartbeats == (), "it has no heartbeat connector"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n", "describes no flow"),
        (
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec: {clusters: [x]}\n",
            "is not a valid resource",
        ),
        (
            "kind: KafkaMirrorMaker2\nspec: {clusters: [{bootstrapServers: 'a:1'}]}\n",
            "describes a cluster without alias; add alias to it",
        ),
        (
            "kind: KafkaMirrorMaker2\nspec: {mirrors: [{targetCluster: b}]}\n",
            "describes a mirror without source or target; add sourceCluster and targetCluster",
        ),
        ("a: [", "invalid YAML"),
    ],
)
def test_what_cannot_be_converted_is_a_problem(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "resource.yaml"
    file.write_text(content)

    with pytest.raises(ConfigError, match=expected):
        converted(str(file))


def test_the_newer_form_of_the_resource_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "resource.yaml"
    file.write_text(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec:\n"
        "  target: {alias: b, bootstrapServers: 'b:1', offsetStorageTopic: positions}\n"
        "  mirrors:\n"
        "  - source: {alias: a, bootstrapServers: 'a:1'}\n"
        "    topicsPattern: orders\n"
        "    sourceConnector: {config: {replication.factor: 1}}\n"
        "    heartbeatConnector: {}\n"
    )
    yaml = tmp_path / "mirror.yaml"
    yaml.write_text(converted(str(file)))

    config = read(yaml)

    (flow,) = config.flows
    assert f"{TAKE_OVER}positions\n" in yaml.read_text()
    assert (str(flow.flow), flow.topics, flow.replication_factor) == ("a->b", ("orders",), 1)
    assert not flow.groups.checkpoints_enabled
    assert [str(pair.flow) for pair in config.heartbeats] == ["a->b"]


def test_connectors_are_imported_together(tmp_path: Path) -> None:
    config = imported("connectors.yaml", tmp_path)

    (flow,) = config.flows
    assert flows_of(config) == CONVERTED["connectors.yaml"]
    assert (flow.topics, flow.groups.groups) == (("testtopic.*",), ("testgroup",))
    assert flow.isolation == "read_committed"
    assert flow.groups.checkpoints_interval_seconds == 10
    assert [str(pair.flow) for pair in config.heartbeats] == ["east->west"]
    assert flow.source.admin == {"bootstrap.servers": "east:9092"}
    text = (tmp_path / "connectors.yaml.yaml").read_text()
    assert "write east->west.replication.takeover.topic for the first start" in text
    assert flow.target.admin == {"bootstrap.servers": "west:9092"}


def test_a_secret_without_effect_does_not_become_a_comment(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=a,b\nmy.password=hunter2\n")

    text = converted(str(file))

    assert "hunter2" not in text
    assert "#   my.password: ********" in text


def test_a_secret_of_which_connectors_have_two_is_not_shown_in_a_remark(tmp_path: Path) -> None:
    file = tmp_path / "connectors.json"
    connectors = [
        {
            "config": {
                "connector.class": f"org.apache.kafka.connect.mirror.Mirror{part}Connector",
                "source.cluster.alias": "a",
                "target.cluster.alias": "b",
                "source.cluster.ssl.key.password": password,
                "source.cluster.client.rack": password[:1],
            }
        }
        for part, password in (("Source", "hunter2"), ("Checkpoint", "swordfish"))
    ]
    file.write_text(json.dumps(connectors))

    text = converted(str(file))

    assert "swordfish" not in text
    assert "# a.ssl.key.password: two connectors differ; ******** is kept, not ********" in text
    assert "# a.client.rack: two connectors differ; 'h' is kept, not 's'" in text


CONNECTOR = {
    "name": "a-to-b",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
    "clusters": "a, b",
    "topics": "orders",
}


def converted_text(folder: Path, content: str, name: str = "file.json") -> str:
    """What `import` makes of a file of that *content*."""
    (folder / name).write_text(content)
    return converted(str(folder / name))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(json.dumps(CONNECTOR), "c.json", id="the body of a PUT"),
        pytest.param(json.dumps({"name": "x", "config": CONNECTOR}), "c.json", id="of a POST"),
        pytest.param(json.dumps([CONNECTOR]), "c.json", id="a list"),
        pytest.param(json.dumps({"x": {"info": {"config": CONNECTOR}}}), "c.json", id="expanded"),
        pytest.param(
            "\n".join(f"{key}={value}" for key, value in CONNECTOR.items()),
            "c.properties",
            id="of connect-standalone",
        ),
    ],
)
def test_each_form_of_a_connector_gives_its_flow(tmp_path: Path, content: str, name: str) -> None:
    text = converted_text(tmp_path, content, name)
    (tmp_path / "mirror.yaml").write_text(text)

    (flow,) = read(tmp_path / "mirror.yaml").flows

    assert (str(flow.flow), flow.topics) == ("a->b", ("orders",))
    assert "# clusters was left out: the aliases of a connector count." in text


def test_a_file_of_connect_standalone_is_refused_with_the_command_that_converts_it(
    tmp_path: Path,
) -> None:
    lines = (f"{key}={value}" for key, value in CONNECTOR.items() if key != "clusters")
    (tmp_path / "c.properties").write_text("\n".join(lines))

    with pytest.raises(ConfigError, match="python -m replication import"):
        read(tmp_path / "c.properties")


@pytest.mark.parametrize(
    ("state", "enabled"),
    [
        pytest.param({}, "true", id="running"),
        pytest.param({"initial_state": "STOPPED"}, "false", id="created stopped"),
        pytest.param({"state": "paused"}, "false", id="paused"),
    ],
)
def test_what_a_paused_connector_does_is_disabled_with_a_remark(
    tmp_path: Path, state: dict[str, str], enabled: str
) -> None:
    text = converted_text(tmp_path, json.dumps({"config": CONNECTOR, **state}))

    assert f"  enabled: {enabled}\n" in text
    assert ("so what it does is disabled" in text) is (enabled == "false")


RESOURCE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  replicas: 3
  target:
    alias: b
    bootstrapServers: b:1
    tls:
      trustedCertificates:
      - {secretName: old, pattern: "*.crt"}
      - {secretName: new, certificate: ca.pem}
  mirrors:
  - source:
      alias: a
      bootstrapServers: a:1
      authentication:
        type: custom
        sasl: true
        config: {sasl.mechanism: AWS_MSK_IAM, sasl.jaas.config: x.IAMLoginModule required;}
    topicsPattern: orders
    sourceConnector: {tasksMax: 2, config: {replication.factor: 1}}
    checkpointConnector: {state: stopped, config: {sync.group.offsets.enabled: true}}
"""


def test_no_field_of_a_resource_is_changed_or_dropped_without_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for secret, name in (("old", "ca.crt"), ("new", "ca.pem")):
        (tmp_path / secret).mkdir()
        (tmp_path / secret / name).write_text(f"certificate of {secret}\n")
    monkeypatch.setattr("replication.features.mm2_import.SECRETS", str(tmp_path))

    text = converted_text(tmp_path, RESOURCE, "resource.yaml")
    (tmp_path / "mirror.yaml").write_text(text)
    (flow,) = read(tmp_path / "mirror.yaml").flows

    trusted = flow.target.admin["ssl.truststore.certificates"]
    assert trusted == "certificate of old\ncertificate of new"
    assert flow.target.admin["ssl.truststore.type"] == "PEM"
    assert flow.source.admin["security.protocol"] == "SASL_PLAINTEXT"
    assert flow.source.admin["sasl.mechanism"] == "AWS_MSK_IAM"
    assert flow.source.admin["sasl.jaas.config"] == "x.IAMLoginModule required;"
    assert not flow.groups.checkpoints_enabled
    assert not flow.groups.sync_enabled
    for remark in (
        "# Mount secret old",
        "# Mount secret new",
        "# To do: secret old names its certificates by the pattern '*.crt'",
        "# The checkpointConnector of a->b is stopped, so what it does is disabled.",
        "# Fields without a meaning here: spec.replicas, connector.tasksMax.",
    ):
        assert remark in text


def test_the_policy_of_awss_sample_keeps_names_without_its_jar() -> None:
    policy = "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy"

    (flow,) = parse_settings({**ONE_FLOW, "replication.policy.class": policy}).flows

    assert flow.policy == IdentityPolicy(source="A")
    assert flow.custom_classes == ()


def test_keys_of_clouderas_replication_manager_are_known() -> None:
    policy = "com.cloudera.dim.kafka.mirror.IdentityReplicationPolicy"
    config = parse_settings(
        {
            **ONE_FLOW,
            "replication.policy.class": policy,
            "emit.reverse.checkpoints.enabled": "true",
        }
    )

    assert config.flows[0].policy == IdentityPolicy(source="A")
    assert config.warnings == ()
    assert any("the command failback" in note for note in config.notes)
