"""References in a configuration are resolved as their providers allow, or they are problems."""

from pathlib import Path

import pytest

from replication.errors import ConfigError
from tests.support.one_flow_files import PROPERTIES, YAML, problems_of
from tests.support.settings import load_file


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        pytest.param("${env:RACK}", "east", id="environment"),
        pytest.param("${file:FOLDER/plain}", "from file", id="whole file without its line end"),
        pytest.param("${file:FOLDER/some.properties:a.b}", "x=y", id="key of a file"),
        pytest.param("${vault:FOLDER/some.properties:a.b}", "x=y", id="declared file provider"),
        pytest.param("${dir:FOLDER:plain}", "from file", id="declared directory provider"),
        pytest.param("${os:RACK}", "east", id="declared environment provider"),
        pytest.param("a-${env:RACK}-${env:RACK}", "a-east-east", id="inside a value"),
        pytest.param("<${file:FOLDER/plain}>", "<from file>", id="whole file inside a value"),
    ],
)
def test_references_are_resolved(tmp_path: Path, reference: str, expected: str) -> None:
    (tmp_path / "plain").write_text("from file\n")
    (tmp_path / "some.properties").write_text("a.b = x=y\n")
    providers = "".join(
        f"config.providers.{name}.class = org.apache.kafka.common.config.provider.{kind}\n"
        for name, kind in {
            "vault": "FileConfigProvider",
            "dir": "DirectoryConfigProvider",
            "os": "EnvVarConfigProvider",
        }.items()
    )
    rack = reference.replace("FOLDER", str(tmp_path))
    content = f"{PROPERTIES}config.providers = vault,dir,os\n{providers}A.client.rack = {rack}\n"

    (flow,) = load_file(tmp_path, content, "c.properties", RACK="east").flows

    assert flow.source.consumer["client.rack"] == expected


@pytest.mark.parametrize("value", ["${RACK}", "x${", "a${env:RACK", "${}"])
def test_what_begins_like_a_reference_and_is_none_is_a_problem(tmp_path: Path, value: str) -> None:
    problems = problems_of(tmp_path, f"{YAML}A.sasl.jaas.config: '{value}'\n")

    assert problems[0].startswith("A.sasl.jaas.config: contains a reference without a provider")
    assert value not in problems[0]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("${os:ALLOWED}", None),
        ("${os:OTHER}", "is not allowed by config.providers.os.param.allowlist.pattern=ALL.*"),
        (
            "${bad:OTHER}",
            "config.providers.bad.param.allowlist.pattern=[ is not a regular expression",
        ),
        ("${vault:FOLDER/in/file}", None),
        ("${vault:/a\0b}", "is not a path; name a file"),
        ("${vault:FOLDER/file}", "is outside of config.providers.vault.param.allowed.paths"),
        ("${vault:FOLDER/in/../file}", "is outside of config.providers.vault.param.allowed.paths"),
    ],
)
def test_the_restrictions_of_a_provider_are_kept(
    tmp_path: Path, reference: str, problem: str | None
) -> None:
    (tmp_path / "in").mkdir()
    for file in (tmp_path / "file", tmp_path / "in" / "file"):
        file.write_text("x")
    provider = "org.apache.kafka.common.config.provider"
    content = f"""{PROPERTIES}
config.providers = vault, os, bad
config.providers.vault.class = {provider}.FileConfigProvider
config.providers.vault.param.allowed.paths = {tmp_path}/in
config.providers.os.class = {provider}.EnvVarConfigProvider
config.providers.os.param.allowlist.pattern = ALL.*
config.providers.bad.class = {provider}.EnvVarConfigProvider
config.providers.bad.param.allowlist.pattern = [
A.client.rack = {reference.replace("FOLDER", str(tmp_path))}
"""

    try:
        load_file(tmp_path, content, "c.properties", ALLOWED="x", OTHER="y")
        found = None
    except ConfigError as error:
        (found,) = error.problems

    assert (found is None) == (problem is None)
    assert problem is None or problem in str(found)


def test_unresolved_references_and_other_problems_are_reported_together(tmp_path: Path) -> None:
    content = YAML + (
        "A.client.id: ${env:NOT_THERE}\n"
        "A.client.rack: ${file:/not/there}\n"
        "B.client.id: ${vault:secret}\n"
        f"B.client.rack: ${{file:{tmp_path}/p:k}}\n"
        "topcis: a\n"
        "replication.factor: ${env:FACTOR}\n"
    )
    (tmp_path / "p").write_text("other=1")

    assert problems_of(tmp_path, content, FACTOR="hunter2") == [
        "A.client.id: ${env:NOT_THERE} is not set; export NOT_THERE before starting",
        (
            "A.client.rack: ${file:/not/there} cannot be read (No such file or directory); "
            "name a file that this user can read"
        ),
        "B.client.id: ${vault:secret} names an unknown provider; use one of env, file",
        f"B.client.rack: ${{file:{tmp_path}/p:k}} has no such key; add k= to the file",
        "topcis: unknown key; did you mean topics? (line 10)",
        "replication.factor: ******** is invalid; write a whole number, for example 2 (line 11)",
    ]


@pytest.mark.parametrize(
    "key", ["state.engine", "replication.mode", "metrics.port", "replication.factor", "A.client.id"]
)
def test_of_a_value_that_is_not_known_nothing_else_is_said(tmp_path: Path, key: str) -> None:
    content = f"{YAML}{key}: ${{env:NOT_THERE}}\n"

    unset = "${env:NOT_THERE} is not set; export NOT_THERE before starting"
    assert problems_of(tmp_path, content) == [f"{key}: {unset}"]
