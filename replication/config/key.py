"""What is known of one configuration key. Pure data; `replication.config.keys` has them all."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["flag", "number", "text", "choice", "choices", "names", "patterns", "class"]
Since = Literal["now", "later"]


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
    since: Since = "now"
    places: tuple[str, ...] = ("top", "flow")
