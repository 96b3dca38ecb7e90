"""Which codec the copies of a topic have, by the newest batches of its source. Pure."""

from collections.abc import Collection, Mapping, Sequence


def codecs_of_copies(
    topics: Collection[str],
    newest: Mapping[str, Sequence[str]],
    known: Mapping[str, str],
    otherwise: str,
) -> dict[str, str]:
    """Returns a codec for each of *topics*.

    A topic with several producers may have batches of several codecs. Its copies keep the codec
    that they have while one of the newest batches has it, for a change costs a generation.

    Args:
        topics: Upstream names.
        newest: The codecs of a topic's newest batches, newest first; none for a topic without one.
        known: The codecs so far.
        otherwise: That of a topic of which nothing is known.
    """
    return {
        topic: _codec(newest.get(topic, ()), known.get(topic, otherwise))
        for topic in sorted(topics)
    }


def _codec(newest: Sequence[str], known: str) -> str:
    return known if known in newest or not newest else newest[0]
