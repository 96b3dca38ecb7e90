"""Which properties are secret, and that none of them is shown."""

import pickle

import pytest

from replication.config.client_keys import JAVA_KEYS, MASK, ClientProperties, is_secret, mask
from replication.config.parse import parse
from replication.config.values import Diagnostics
from replication.errors import ConfigError
from tests.support.settings import ONE_FLOW, parse_settings


def test_the_secret_ones_among_javas_keys() -> None:
    assert sorted(key for key in JAVA_KEYS if is_secret(key)) == [
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.pem",
        "A.consumer.ssl.keystore.key",
        "api.key",
        "basic.auth.user.info",
        "hadoop.fs.azure.sas.c.a.blob.core.windows.net",
        "my.Token",
        "s3.secret",
    ],
)
def test_other_keys_that_are_secret(key: str) -> None:
    assert is_secret(key)


def test_client_properties_mask_secrets_in_their_repr_only() -> None:
    properties = ClientProperties({"client.id": "a", "ssl.key.password": "hunter2"})

    assert repr(properties) == f"{properties}" == str({"client.id": "a", "ssl.key.password": MASK})
    assert mask(properties) == {"client.id": "a", "ssl.key.password": MASK}
    assert pickle.loads(pickle.dumps(properties)) == properties  # noqa: S301  # our own bytes


def test_secrets_are_masked() -> None:
    jaas = "x.PlainLoginModule required username=u password=hunter2;"
    config = parse_settings(
        {
            **ONE_FLOW,
            "A.sasl.jaas.config": jaas,
            "B.ssl.key.password": "hunter2",
            "A.security.protocol": "SASL_SSL",
            "A.sasl.mechanism": "PLAIN",
        }
    )

    assert "hunter2" not in repr(config)
    assert MASK in repr(config)
    assert Diagnostics().display("A.ssl.key.password", "hunter2") == MASK
    assert config.flows[0].source.admin["sasl.jaas.config"] == jaas
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  # our own bytes


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        pytest.param(
            "replication.factor",
            "hunter2",
            f"{MASK} is invalid; write a whole number, for example 2",
            id="number",
        ),
        pytest.param(
            "topics", "a,hunter2(", f"{MASK} is invalid; write names or regexes", id="pattern"
        ),
        pytest.param(
            "replication.policy.separator",
            "hunter:2",
            f"{MASK} is not allowed in a topic name; use A-Z a-z 0-9 . _ -",
            id="separator",
        ),
        pytest.param(
            "state.dir",
            "hunter2",
            f"{MASK} is relative; write an absolute path or a URI such as s3a://bucket/folder",
            id="state.dir",
        ),
    ],
)
def test_a_problem_masks_a_value_that_came_from_a_reference(
    key: str, value: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("f", {**ONE_FLOW, key: value}, default_state_dir="/s", hidden={key})

    assert caught.value.problems == (f"{key}: {problem}",)
