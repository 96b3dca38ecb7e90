"""What a configuration key is, and how a field of the configuration declares its own. Pure.

A field declares its key once, with the kind, the default, the bounds and the text::

    removal: Annotated[bool, flag("replication.acls.removal.enabled", "false", "removes ...")]

`replication.config.parse` reads the field by it, and the reference, the command ``keys`` and the
documents tell what it says. A key that sets a property of a Kafka client says so, and needs no
other code::

    wait: Annotated[int, number("fetch.wait.ms", "500", "waits ...").sets("source.consumer", NAME)]
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args, get_type_hints

Kind = Literal[
    "flag", "number", "text", "choice", "choices", "names", "patterns", "class", "java class"
]
Since = Literal["now", "later"]
ClientName = Literal[
    "source.consumer",
    "source.producer",
    "source.admin",
    "target.consumer",
    "target.producer",
    "target.admin",
]
"""A client of a flow, as the keys of its properties begin after the flow's name."""

LONGEST: Final = 31_536_000
"""The longest interval that makes sense, a year in seconds."""
MOST_REPLICAS: Final = 32_767
"""Kafka's protocol has two bytes for a replication factor."""
MOST: Final = 2_147_483_647
"""Java's largest int, which MirrorMaker 2 takes as well."""
MOST_PORT: Final = 65_535
MIRROR: Final = "org.apache.kafka.connect.mirror."
NOT_MM2: Final = "not a key of MirrorMaker 2"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key.

    Args:
        name: The key at top level, or after ``A->B.``.
        kind: How its value is read.
        default: The default as written in a file; empty for none.
        meaning: One line, with the unit if there is one.
        mm2: The difference from MirrorMaker 2, as a phrase; empty if there is none.
        choices: All valid values, for the kinds choice, choices and class; for the kind java class
            those that need no jar.
        least: The smallest valid number, for the kind number.
        most: The largest one.
        since: ``later``: the value is checked, but not used in this version.
        places: Where the key may be set: ``top``, ``flow``, and ``target`` for the flow's target
            cluster, as ``B.key``. A flow's own value wins over the top level's, and that over the
            target's, as in MirrorMaker 2. ``cluster`` alone is for a key of any one cluster.
        is_reloadable: Whether a running flow reads the value anew each turn. Any other one is part
            of what the flow has open: a query, a topic, a thread, a connection.
        effect: The client and its property, in Java's key space, that the value is for. A file that
            leaves the key out leaves the property to the client's default, which *default* is.
    """

    name: str
    kind: Kind
    default: str
    meaning: str
    mm2: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = MOST
    since: Since = "now"
    places: tuple[str, ...] = ("top", "flow")
    is_reloadable: bool = False
    effect: tuple[ClientName, str] | None = None

    def reloadable(self) -> "ConfigKey":
        """Returns this key as one that a running flow reads anew each turn."""
        return replace(self, is_reloadable=True)

    def at_top(self) -> "ConfigKey":
        """Returns this key as one of the whole file, and not of a flow or a cluster."""
        return replace(self, places=("top",))

    def of_cluster(self) -> "ConfigKey":
        """Returns this key as one of a cluster, whatever flows it is part of: ``A.key``."""
        return replace(self, places=("cluster",))

    def sets(self, client: ClientName, name: str) -> "ConfigKey":
        """Returns this key as one that sets the property *name* of a flow's *client*.

        A flow's own key wins over every other form of the property; at top level, where it is for
        all flows, every other form wins over it.
        """
        return replace(self, effect=(client, name))

    @property
    def written(self) -> str:
        """The key as a file may have it."""
        return f"A.{self.name}" if "cluster" in self.places else self.name


Keys = Mapping[str, ConfigKey]
"""The keys of a field that is a mapping, by the name that each value has in it."""


def keys_of(section: type) -> tuple[ConfigKey, ...]:
    return tuple(
        key
        for declared in declared_keys(section).values()
        for each in declared
        for key in ((each,) if isinstance(each, ConfigKey) else each.values())
    )


def declared_keys(section: type) -> dict[str, tuple[ConfigKey | Keys, ...]]:
    """Returns what each field of *section* declares; nothing for one that is not a setting."""
    hints = get_type_hints(section, include_extras=True)
    return {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}


def java_class(name: str, default: str, meaning: str, *others: str) -> ConfigKey:
    """Returns a key with a class of MirrorMaker 2's, one of the *others*, or one of the user's."""
    short = default.removeprefix(MIRROR)
    return ConfigKey(name, "java class", default, meaning, choices=(default, short, *others))


def flag(name: str, default: str, meaning: str, mm2: str = "") -> ConfigKey:
    return ConfigKey(name, "flag", default, meaning, mm2)


def text(name: str, meaning: str, default: str = "") -> ConfigKey:
    """Returns a key with a text, without the spaces around it."""
    return ConfigKey(name, "text", default, meaning, NOT_MM2)


def names(name: str, meaning: str) -> ConfigKey:
    """Returns a key with a list of names, empty by default."""
    return ConfigKey(name, "names", "", meaning, NOT_MM2)


def port(name: str, default: str, meaning: str, mm2: str = NOT_MM2) -> ConfigKey:
    """Returns a key with a TCP port of the whole file's."""
    return number(name, default, meaning, mm2, most=MOST_PORT).at_top()


def choice(name: str, literal: object, default: str, meaning: str, mm2: str = "") -> ConfigKey:
    """Returns a key with one of the values of the type *literal*."""
    return ConfigKey(name, "choice", default, meaning, mm2, choices=get_args(literal))


def patterns(name: str, default: str, meaning: str, mm2: str = "") -> ConfigKey:
    """Returns a key with a list of names and regular expressions."""
    return ConfigKey(name, "patterns", default, meaning, mm2)


def number(
    name: str, default: str, meaning: str, mm2: str = NOT_MM2, least: int = 0, most: int = MOST
) -> ConfigKey:
    return ConfigKey(name, "number", default, meaning, mm2, least=least, most=most)


def seconds(name: str, default: str, meaning: str) -> ConfigKey:
    """Returns a key with a number of seconds, at least one."""
    return number(name, default, f"{meaning}, in seconds", "", least=1, most=LONGEST)


def factor(name: str, default: str, what: str) -> ConfigKey:
    meaning = f"replication factor of {what}; -1 for the cluster's default"
    return number(name, default, meaning, "", least=-1, most=MOST_REPLICAS)
