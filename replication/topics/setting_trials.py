"""Which of one topic's settings a cluster takes, where it rejects all of them together. Pure.

A rejection names the setting to blame, or none: texts of policies often name none, nor does Kafka's
where a cluster lacks tiered storage.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class SettingTrials:
    """The requests to send, one after the other; `settle` takes the answer to each.

    Args:
        waiting: The keys of each request that is still to be sent.
        taken: The keys that the cluster has accepted.
        rejected: Those that it has not, and why.
    """

    waiting: list[tuple[str, ...]]
    taken: list[str] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, keys: Iterable[str]) -> "SettingTrials":
        """Returns *keys*' trials, which begin with all; what comes first matters most."""
        together = tuple(keys)
        return cls([together] if together else [])

    def settle(self, reason: str | None) -> None:
        """Takes the answer to the first request of ``waiting``: why it was rejected, or None.

        Without the key that *reason* names first, all others are tried together. If it names none,
        each is tried alone.
        """
        sent = self.waiting.pop(0)
        if reason is None:
            self.taken += sent
            return
        blamed = first_named(sent, reason) or (sent[0] if len(sent) == 1 else None)
        if blamed is None:
            self.waiting[:0] = [(key,) for key in sent]
            return
        self.rejected[blamed] = reason
        if others := tuple(key for key in sent if key != blamed):
            self.waiting.insert(0, others)

    def reject_all(self, reason: str) -> None:
        """Takes the answer that the first request of ``waiting`` was rejected for no setting."""
        self.rejected.update(dict.fromkeys(self.waiting.pop(0), reason))


def first_named(keys: Iterable[str], text: str) -> str | None:
    """Returns the key of *keys* that *text* names first; None if it names none.

    A key does not count where it is part of a longer one: ``retention.ms`` in
    ``delete.retention.ms``.
    """
    patterns = {key: rf"(?<![\w.]){re.escape(key)}(?!\.?\w)" for key in keys}
    found = {key: re.search(pattern, text) for key, pattern in patterns.items()}
    places = {key: match.start() for key, match in found.items() if match}
    return min(places, key=lambda key: places[key], default=None)
