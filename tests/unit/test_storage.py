"""What reads and writes a state directory, by its scheme and by where the credentials come from."""

import os
from pathlib import Path

import pytest

from replication.config.state_access import EngineChoice, StateAccess
from replication.errors import SetupError
from replication.state.storage import Storage, hadoop_site, storage_for, storage_of

USER = "HADOOP_USER_NAME"
KEYS = {"fs.s3a.access.key": "access", "fs.s3a.secret.key": "hunter2"}


def of(
    state_dir: str,
    engine: EngineChoice = "auto",
    environ: dict[str, str] | None = None,
    **site: str,
) -> Storage:
    properties = {name.replace("_", "."): value for name, value in site.items()}
    return storage_of(StateAccess(state_dir, {}, engine), properties, environ or {})


@pytest.mark.parametrize(
    ("state_dir", "engine", "root"),
    [
        ("file:///state", "delta-rs", "/state"),
        ("file:///my%20state", "delta-rs", "/my state"),
        ("file:///my%2520state", "spark", "/my%20state"),
        ("s3a://bucket/state/", "delta-rs", "s3://bucket/state"),
        ("s3://bucket/state", "delta-rs", "s3://bucket/state"),
        ("hdfs://host:8020/state", "delta-rs", "hdfs://host:8020/state"),
        ("hdfs://host/state", "spark", None),
        ("hdfs://host:8020/a%20b", "spark", None),
        ("abfss://c@a.dfs.core.windows.net/state", "spark", None),
        ("gs://bucket/state", "spark", None),
        ("dbfs:/Volumes/main/state", "spark", None),
        ("s3n://bucket/state", "spark", None),
        ("s3a://bucket/a%20b", "spark", "s3://bucket/a%20b"),
        ("s3a://bucket/a#b", "spark", "s3://bucket/a#b"),
    ],
)
def test_delta_rs_is_for_local_folders_s3_and_hdfs(
    state_dir: str, engine: str, root: str | None
) -> None:
    storage = of(state_dir)

    assert storage.engine == engine
    assert root in (None, storage.root)
    assert storage.why


@pytest.mark.parametrize(
    ("state_dir", "name", "value"),
    [
        ("s3a://b/s", "fs.s3a.aws.credentials.provider", "org.example.VaultProvider"),
        ("s3a://b/s", "fs.s3a.aws.credentials.provider", "a.AssumedRoleCredentialProvider"),
        ("s3a://b/s", "hadoop.security.credential.provider.path", "jceks://file/s"),
        ("s3a://b/s", "fs.s3a.bucket.b.delegation.token.binding", "org.example.Binding"),
        ("s3a://b/s", "fs.s3a.encryption.algorithm", "CSE-KMS"),
        ("s3a://b/s", "fs.s3a.secret.key", "${other.property}"),
        ("s3://b/s", "fs.s3.impl", "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"),
        ("hdfs://host:8020/s", "hadoop.security.authentication", "kerberos"),
        ("hdfs://host:8020/s", "hadoop.security.key.provider.path", "kms://https@host/kms"),
    ],
)
def test_spark_stays_where_only_hadoop_has_the_credentials(
    state_dir: str, name: str, value: str
) -> None:
    assert storage_of(StateAccess(state_dir, {name: value}), {}, {}).engine == "spark"
    asked = StateAccess(state_dir, {name: value}, "delta-rs")
    with pytest.raises(SetupError, match=r"state\.engine is delta-rs, but .*; write auto or spark"):
        storage_of(asked, {}, {})


@pytest.mark.parametrize(
    ("state_dir", "site"),
    [
        ("hdfs:///state", {"fs.defaultFS": "hdfs://host:8020"}),
        ("hdfs:///state", {"fs.defaultFS": "hdfs://ns", "dfs.nameservices": "other,ns"}),
        ("hdfs://ns/state", {"dfs.nameservices": "ns"}),
    ],
)
def test_hadoops_files_say_where_the_name_node_is(state_dir: str, site: dict[str, str]) -> None:
    asked = StateAccess(state_dir, engine="delta-rs")

    assert storage_of(StateAccess(state_dir), site, {}).engine == "delta-rs"
    assert storage_of(StateAccess(state_dir), {}, {}).engine == "spark"
    with pytest.raises(SetupError, match="no file in HADOOP_CONF_DIR says where"):
        storage_of(asked, {}, {})


def test_a_token_of_the_environment_does_not_go_with_hadoops_keys() -> None:
    environ = {"AWS_SESSION_TOKEN": "t"}
    found = storage_of(StateAccess("s3a://b/s", {}, "auto"), KEYS, environ)
    assert (found.engine, "AWS_SESSION_TOKEN" in found.why) == ("spark", True)
    assert of("s3a://b/s", environ=environ).engine == "delta-rs"


def test_databricks_gives_its_credentials_to_spark() -> None:
    environ = {"DATABRICKS_RUNTIME_VERSION": "18.1"}

    assert of("s3://bucket/state", environ=environ).engine == "spark"
    assert of("file:///state", environ=environ).engine == "delta-rs"


@pytest.mark.parametrize("state_dir", ["file:///state", "s3a://b/s", "hdfs:///s", "gs://b/s"])
def test_spark_can_be_asked_for_everywhere(state_dir: str) -> None:
    assert of(state_dir, "spark").engine == "spark"


@pytest.mark.parametrize(
    ("variables", "user"),
    [
        ({}, None),
        ({"SPARK_USER": "submitter"}, None),
        ({"SPARK_USER": "submitter", "CONTAINER_ID": "container_1"}, "submitter"),
        ({"SPARK_USER": "submitter", "CONTAINER_ID": "container_1", USER: "given"}, "given"),
    ],
)
def test_a_container_of_yarn_acts_on_hdfs_as_the_one_who_submitted(
    variables: dict[str, str], user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (USER, "SPARK_USER", "CONTAINER_ID", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
        if name in variables:
            monkeypatch.setenv(name, variables[name])

    storage_for(StateAccess("hdfs://host:8020/state"))

    assert os.environ.pop(USER, None) == user


def test_hadoops_properties_become_options_and_the_section_wins() -> None:
    site = {
        "fs.s3a.access.key": "other",
        "fs.s3a.endpoint": "storage.example.com:9000",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.bucket.special.session.token": "token",
        "fs.s3a.aws.credentials.provider": "o.SimpleAWSCredentialsProvider, "
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    }

    storage = storage_of(StateAccess("s3a://special/state", KEYS), site, {})

    assert storage.engine == "delta-rs"
    assert storage.options == {
        "aws_access_key_id": "access",
        "aws_secret_access_key": "hunter2",
        "aws_session_token": "token",
        "aws_endpoint": "https://storage.example.com:9000",
        "aws_region": "us-east-1",
    }
    assert "options" not in repr(storage)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"}, {"aws_region": "eu-central-1"}),
        ({"endpoint.region": "eu-west-1"}, {"aws_region": "eu-west-1"}),
        (
            {"endpoint": "host:9", "connection.ssl.enabled": "false"},
            {
                "aws_allow_http": "true",
                "aws_endpoint": "http://b.host:9",
                "aws_region": "us-east-1",
                "aws_virtual_hosted_style_request": "true",
            },
        ),
        (
            {"aws.credentials.provider": "org.apache.AnonymousAWSCredentialsProvider"},
            {"aws_skip_signature": "true"},
        ),
    ],
)
def test_an_endpoint_is_amazons_or_a_server_of_ones_own(
    properties: dict[str, str], expected: dict[str, str]
) -> None:
    hadoop = {f"fs.s3a.{name}": value for name, value in properties.items()}

    assert storage_of(StateAccess("s3a://b/s", hadoop), {}, {}).options == expected


def test_hadoops_own_files_are_read_with_the_environments_variables(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.s3a.secret.key</name><value>${env.KEY}</value>"
        "</property><property><name>a</name><value> b </value></property></configuration>"
    )
    environ = {"HADOOP_CONF_DIR": str(tmp_path), "KEY": "hunter2"}

    assert hadoop_site(environ) == {"fs.s3a.secret.key": "hunter2", "a": "b"}
    assert hadoop_site({}) == {}
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(SetupError, match=f"cannot read {tmp_path}/core-site.xml, which HADOOP"):
        hadoop_site(environ)
