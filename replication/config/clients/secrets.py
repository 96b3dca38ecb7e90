"""Which client properties are secret, and how to show properties without their secrets. Pure."""

import re
from collections.abc import Mapping
from typing import Final

MASK: Final = "********"

SPARK_REDACTION: Final = (
    "(?i)secret|password|token|credential|(access|account|encryption)[.]?key|jaas[.]config"
    "|keystore[.]key|private|[.]sas[.]|user[.]info"
)
"""Which settings Spark never shows: its default knows neither JAAS nor keys in PEM nor Azure's."""

_SECRET = re.compile(
    r"password|secret|token(?!\.endpoint)|jaas|passphrase|credential(?!s\.client\.id)"
    r"|(?:keystore|private|ssl|api|encryption)\.?key(?:$|\.pem)|key\.pem"
    r"|(?:access|account)\.?key|\.azure\.sas\.|auth\.user\.info",  # of object storage
    re.IGNORECASE,
)


def is_secret(key: str) -> bool:
    """Returns whether the value of *key* must never be shown.

    Certificates are public, keys are not.
    """
    return _SECRET.search(key) is not None


def mask(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: MASK if is_secret(key) else value for key, value in properties.items()}


class ClientProperties(dict[str, str]):
    """Properties of one Kafka client, with Java's keys; the repr masks secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(mask(self))
