"""The figures of the groups of a flow, from its last round of checkpoints. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

from replication.figures.lag import Lag
from replication.figures.observation import Answer, GroupFigures
from replication.flows.board import GroupRound
from replication.groups.positions import GroupPosition
from replication.model import TopicPartition
from replication.offsets.map import Ahead, Bounded, NoAnswer

_Commit = tuple[str, TopicPartition, int]


class GroupLooks:
    """The groups of one flow, round by round."""

    def __init__(self) -> None:
        self._untranslated: dict[_Commit, float] = {}  # since when

    def look(
        self,
        now: float,
        round_: GroupRound,
        ends: Mapping[TopicPartition, int],
        lags: Mapping[TopicPartition, Lag],
    ) -> tuple[GroupFigures, ...]:
        """Returns the figures of each group, in the order of their names.

        Args:
            now: The time of the look.
            round_: The last round.
            ends: Where the logs end on the source.
            lags: Of the partitions that are copied.
        """
        by_group: dict[str, list[GroupPosition]] = defaultdict(list)
        for position in round_.positions:
            by_group[position.group].append(position)
        waiting = {_commit(p) for p in round_.positions if isinstance(p.answer, NoAnswer)}
        self._untranslated = {
            commit: self._untranslated.get(commit, round_.at or now) for commit in waiting
        }
        found = (self._group(name, now, by_group[name], ends, lags) for name in sorted(by_group))
        blocked = round_.blocked
        if blocked is None:
            return tuple(found)
        return tuple(
            replace(one, figures={**one.figures, "group_blocked": float(one.group in blocked)})
            for one in found
        )

    def _group(
        self,
        group: str,
        now: float,
        positions: list[GroupPosition],
        ends: Mapping[TopicPartition, int],
        lags: Mapping[TopicPartition, Lag],
    ) -> GroupFigures:
        upstream = {position.upstream for position in positions}
        since = [self._untranslated.get(_commit(position), now) for position in positions]
        figures: dict[str, float] = {
            "group_position_age_seconds": max(0.0, now - min(since)),
            "group_reread_records": sum(position.reread for position in positions),
        }
        if upstream <= ends.keys():
            behind = (max(0, ends[p.upstream] - p.reads_from) for p in positions)
            figures["group_lag_records"] = sum(behind)
        own = [lags[tp] for tp in upstream if tp in lags]
        if len(own) == len(upstream):
            waiting = sum(lag.records for lag in own)
            figures["group_unreplicated_records"] = figures["rpo_records"] = waiting
            ages = [lag.seconds for lag in own if lag.seconds is not None]
            if len(ages) == len(own):
                figures["rpo_seconds"] = max(ages, default=0.0)
        return GroupFigures(group, figures, Counter(map(_answer, positions)))


def _commit(position: GroupPosition) -> _Commit:
    return position.group, position.upstream, position.committed.offset


def _answer(position: GroupPosition) -> Answer:
    if isinstance(position.answer, NoAnswer):
        return "none"
    return "bounded" if isinstance(position.answer, Bounded | Ahead) else "exact"
