"""What pages say of a flow first: its state and health in a sentence, its conditions by kind. Pure.

A flow is what REST answers of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from replication.figures.observation import ENDED
from replication.serve.formats import ago, counted, cut, span

Tone = Literal["bad", "unknown", "degraded", "ok", "ended"]
"""The health of a flow; `ended` is one that has ended and was well, so that it is neither."""

SIGNS: Final[Mapping[Tone, str]] = {
    "bad": "✖",
    "unknown": "?",
    "degraded": "▲",
    "ok": "●",
    "ended": "○",
}
"""A sign for each tone, the worst first, so that a colour never says alone what matters."""

_WORDS: Final[Mapping[Tone, str]] = {"ok": "well"}


def tone(flow: Mapping[str, Any]) -> Tone:
    """Returns how a flow is."""
    health: Tone = flow["health"] or "unknown"
    return "ended" if health == "ok" and flow["state"] in ENDED else health


def by_tone(flows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns *flows*, the worst first, else in their order."""
    return sorted(flows, key=lambda flow: list(SIGNS).index(tone(flow)))


def headline(flows: Sequence[Mapping[str, Any]]) -> str:
    """Returns how many flows are how: ``10 flows: 1 bad, 9 well``, ``2 flows: all well``."""
    found = Counter(map(tone, flows))
    known = [(_WORDS.get(each, each), found[each]) for each in SIGNS if found[each]]
    how = ", ".join(f"{count} {word}" for word, count in known)
    if len(known) == 1:
        how = known[0][0] if len(flows) == 1 else f"all {known[0][0]}"
    return f"{counted(len(flows), 'flow')}: {how}"


@dataclass(frozen=True, slots=True)
class Kind:
    """The conditions of one kind, in their order, and what they are about in a few words."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def title(self) -> str:
        """What holds: ``set aside``."""
        return str(self.rows[0]["code"]).replace("-", " ")

    @property
    def about(self) -> str:
        """Of what: a topic, or how many; "" for a single condition of the flow itself."""
        topics = {row["topic"] for row in self.rows if row["topic"] is not None}
        if len(topics) == 1:
            return str(*topics)
        if topics:
            return counted(len(topics), "topic")
        return str(len(self.rows)) if len(self.rows) > 1 else ""

    @property
    def since(self) -> str:
        """When the first of them began."""
        return str(min(row["since"] for row in self.rows))


def kinds(conditions: Iterable[Mapping[str, Any]]) -> list[Kind]:
    """Returns *conditions* by their kind, in the order of the first of each."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in conditions:
        found.setdefault(row["code"], []).append(row)
    return list(map(Kind, found.values()))


def sentence(flow: Mapping[str, Any]) -> str:
    """Returns what a flow does and how it is: ``running, bad: set aside (2 topics)``."""
    state, own = flow["state"], tone(flow)
    text = cut(flow["text"], 300)
    if state in {"silent", "unknown"}:
        last = flow["as_of"] and f"it was {flow['last_state']} {ago(flow['as_of'])}"
        return "; ".join(filter(None, (f"{state}: {text}" if text else state, last)))
    if flow["ended_at"]:
        state += f" {ago(flow['ended_at'])}"
    if flow["exit_code"]:
        state += f", exit code {flow['exit_code']}"
    if flow["reason"]:
        state += f" ({cut(flow['reason'], 300)})"
    found = [
        f"{each.title} ({cut(each.about, 60)})" if each.about else each.title
        for each in kinds(flow["conditions"])
    ]
    why = "; ".join(filter(None, (", ".join(found), text)))
    if own == "ok":
        state += " and well"
    elif own != "ended":
        state += f", {own}"
    if not flow["stale"]:
        figures = flow["figures"]
        if flow["labelled"].get("partitions", {}).get("catching-up"):
            left = figures["catch_up_seconds"]
            state += ", catching up" + (f" ({span(left)} left)" if left else "")
        if unknown := figures["lag_unknown_partitions"]:
            state += f", lag of {counted(unknown, 'partition')} unknown"
    return f"{state}: {why}" if why else state
