"""What becomes of records that cannot be copied. Pure."""

from dataclasses import dataclass
from typing import Annotated, Final

from replication.config.config_key import NOT_MM2, ConfigKey, choice, number
from replication.model import LetterKind

LETTERS: Final = "replication.dead.letters"
LETTERS_TOPIC: Final = "replication.dead.letters.topic"


@dataclass(frozen=True, kw_only=True)
class LettersConfig:
    """Where a flow keeps records that cannot be copied."""

    kind: Annotated[
        LetterKind,
        choice(
            LETTERS,
            LetterKind,
            "none",
            "keeps a record that cannot be copied in a topic on the target or in a table, so that "
            "its topic goes on; with none the topic is set aside",
            "MirrorMaker 2's task fails",
        ),
    ]
    letters_topic: Annotated[
        str,
        ConfigKey(
            LETTERS_TOPIC,
            "text",
            "",
            "the topic on the target for such records, made where it does not exist; by default "
            "A.dead-letters.internal",
            NOT_MM2,
        ),
    ]
    most: Annotated[
        int,
        number(
            "replication.dead.letters.max",
            "10",
            "how many records of a partition may be kept in a row, or among ten times as many "
            "offsets; then the topic is set aside",
            least=1,
        ),
    ]
