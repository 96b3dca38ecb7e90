"""Hadoop's properties in a configuration: where they may stand, and that none of them is shown."""

import re
from pathlib import Path

import pytest

from replication.config.client_keys import MASK, SPARK_REDACTION
from replication.config.file import load
from tests.support.settings import ONE_FLOW, parse_settings, problems_of

REMOTE = {**ONE_FLOW, "state.dir": "s3a://bucket/replication"}
SECRETS = (
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.s3a.encryption.key",
    "fs.azure.account.key.name.dfs.core.windows.net",
    "fs.azure.account.oauth2.client.secret",
    "fs.gs.auth.service.account.private.key",
)


def test_the_section_becomes_properties_without_its_prefix() -> None:
    config = parse_settings(
        {**REMOTE, "hadoop.fs.s3a.endpoint": " e ", "hadoop.fs.s3a.x": ("a", "b")}
    )

    assert config.hadoop == {"fs.s3a.endpoint": "e", "fs.s3a.x": "a,b"}
    assert (config.warnings, config.notes) == ((), ())


def test_a_cluster_may_be_called_hadoop() -> None:
    config = parse_settings(
        {
            "clusters": "hadoop, B",
            "hadoop.bootstrap.servers": "h:1",
            "B.bootstrap.servers": "b:1",
            "hadoop->B.enabled": "true",
        }
    )

    assert config.hadoop == {}
    assert config.flows[0].source.admin["bootstrap.servers"] == "h:1"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_shown_neither_by_the_mirror_nor_by_spark(name: str) -> None:
    config = parse_settings({**REMOTE, f"hadoop.{name}": "hunter2"})

    assert config.hadoop == {name: "hunter2"}
    assert f"{name!r}: {MASK!r}" in repr(config)
    assert "hunter2" not in repr(config)
    assert re.search(SPARK_REDACTION, f"spark.hadoop.{name}")


def test_references_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    file = tmp_path / "mirror.yaml"
    file.write_text(
        "clusters: [A, B]\n"
        "A.bootstrap.servers: a:1\n"
        "B.bootstrap.servers: b:1\n"
        "A->B.enabled: true\n"
        "state.dir: s3a://bucket/replication\n"
        "hadoop:\n"
        "  fs.s3a.access.key: ${env:ACCESS}\n"
        f"  fs.s3a.secret.key: ${{file:{tmp_path}/key}}\n"
    )

    config = load(file, environ={"ACCESS": "from a variable"}, default_state_dir="/unused")

    assert config.hadoop == {
        "fs.s3a.access.key": "from a variable",
        "fs.s3a.secret.key": "from a file",
    }


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("A->B.hadoop.fs.x", "is a top-level key; write hadoop.fs.x"),
        ("hadoop.spark.hadoop.fs.x", "has Spark's prefix as well; write hadoop.fs.x"),
        ("hadoop.", "is not a Hadoop property; write, for example, hadoop.fs.s3a.endpoint"),
        ("hadoop.fs..x", "is not a Hadoop property; write, for example, hadoop.fs.s3a.endpoint"),
    ],
)
def test_what_is_wrong_with_a_key(key: str, problem: str) -> None:
    assert problems_of({**REMOTE, key: "x"}) == [f"{key}: {problem}"]


def test_on_a_local_state_directory_the_section_has_no_effect() -> None:
    config = parse_settings({**ONE_FLOW, "hadoop.fs.s3a.endpoint": "e"})

    assert config.notes == ("hadoop.fs.s3a.endpoint: has no effect: state.dir is the local /state",)
