"""Which client properties are secret, and that none of them is shown."""

import pickle

import pytest

from replication.config.clients.java_keys import JAVA_KEYS
from replication.config.clients.secrets import MASK, ClientProperties, is_secret, mask


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
