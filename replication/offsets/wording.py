"""Puts a translated offset into words, the same ones wherever an operator reads them. Pure."""

from typing import Final

from replication.offsets.map import Ahead, Bounded, Exact, NoAnswer, Translation

_WHY_NONE: Final = {
    "topic created again": "its topic was deleted or created again, so it means another record",
    "topic not described": "the source denies its topic: it may be another one by now",
}


def quality(answer: Translation) -> str:
    """Returns how far *answer* can be trusted: the text beside its offset."""
    match answer:
        case Exact():
            return "exact"
        case Bounded(_, reread, 0):
            return f"at most {_records(reread)} may be read again"
        case Bounded(_, 0, missing):
            return f"the earliest copy; {_records(missing)} before it {_were(missing)} never copied"
        case Bounded(_, reread, missing):
            again = f"at most {_records(reread)} may be read again"
            return f"the earliest copy; {again}, {_records(missing)} {_were(missing)} never copied"
        case Ahead(_, reread):
            return f"ahead of replication; at most {_records(reread)} may be read again"
        case NoAnswer(reason, None):
            return _WHY_NONE.get(reason, "nothing replicated")
        case NoAnswer(_, first):
            return f"before the offset map, which starts at offset {first}"


def sentence(answer: Translation) -> str:
    """Returns one line for a person and a script: the offset, or ``none``, comes first."""
    if isinstance(answer, NoAnswer):
        return f"none: {quality(answer)}"
    return f"{answer.offset} {quality(answer)}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _records(count: int) -> str:
    return f"{count} record{'s' * (count != 1)}"


def fields(answer: Translation) -> dict[str, object]:
    """Returns *answer* as plain values with stable names, for programs."""
    if isinstance(answer, NoAnswer):
        return {"offset": None, "quality": "none", "reread": 0, "text": quality(answer)}
    missing = answer.never_copied if isinstance(answer, Bounded) else 0
    return {
        "offset": answer.offset,
        "quality": type(answer).__name__.lower(),
        "reread": 0 if isinstance(answer, Exact) else answer.reread,
        **({"never_copied": missing} if missing else {}),
        "text": quality(answer),
    }
