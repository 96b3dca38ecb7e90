"""What a configuration key is, and short forms of the usual kinds. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["flag", "number", "text", "choice", "choices", "names", "patterns", "class"]
Since = Literal["now", "later"]

LONGEST: Final = 31_536_000
"""The longest interval that makes sense, a year in seconds."""
MOST_REPLICAS: Final = 32_767
"""Kafka's protocol has two bytes for a replication factor."""
MIRROR: Final = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key.

    Args:
        name: The key at top level, or after ``A->B.``.
        kind: How its value is read.
        default: The default as written in a file; empty for none.
        meaning: One line, with the unit if there is one.
        mm2: The difference from MirrorMaker 2, as a phrase; empty if there is none.
        choices: All valid values, for the kinds choice, choices and class.
        least: The smallest valid number, for the kind number.
        most: The largest one. By default Java's largest int, which MirrorMaker 2 takes as well.
        since: ``later``: the value is checked, but not used in this version.
        places: Where the key may be set: ``top``, ``flow`` or both. A flow's own value wins.
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    mm2: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 2_147_483_647
    since: Since = "now"
    places: tuple[str, ...] = ("top", "flow")


def flag(name: str, default: str, meaning: str, mm2: str = "") -> ConfigKey:
    """A key that is true or false."""
    return ConfigKey(name, "flag", default, meaning, mm2)


def seconds(name: str, default: str, meaning: str) -> ConfigKey:
    """A number of seconds, at least one."""
    return ConfigKey(name, "number", default, f"{meaning}, in seconds", least=1, most=LONGEST)


def factor(name: str, default: str, what: str) -> ConfigKey:
    """A replication factor of *what*."""
    meaning = f"replication factor of {what}; -1 for the cluster's default"
    return ConfigKey(name, "number", default, meaning, least=-1, most=MOST_REPLICAS)


def own_number(
    name: str, default: str, meaning: str, least: int = 1, most: int = 2_147_483_647
) -> ConfigKey:
    """A number that MirrorMaker 2 has no key for."""
    mm2 = "not a key of MirrorMaker 2"
    return ConfigKey(name, "number", default, meaning, mm2, least=least, most=most)


def retention(table: str, default: str) -> ConfigKey:
    """How long the rows of a Delta table are kept."""
    meaning = f"how long the flow's rows of the table {table} are kept, in days"
    return own_number(f"state.{table}.retention.days", default, meaning, most=36_500)


def guard(cause: str, meaning: str, default: str = "fail") -> ConfigKey:
    """What to do where a partition cannot go on without losing or repeating records."""
    return ConfigKey(
        f"replication.guard.{cause}",
        "choice",
        default,
        f"what to do if {meaning}",
        "MirrorMaker 2 does not notice it",
        choices=("fail", "stop", "skip", "restart"),
    )


def mm2_class(name: str, default: str) -> ConfigKey:
    """A class of MirrorMaker 2 that cannot be replaced."""
    return ConfigKey(
        name,
        "class",
        MIRROR + default,
        "a pluggable class of MirrorMaker 2",
        "unlike in MirrorMaker 2, no other class is supported",
        choices=(MIRROR + default, default),
    )
