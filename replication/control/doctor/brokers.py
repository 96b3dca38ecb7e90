"""What the brokers of a cluster are: their releases, and their clock."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from replication.control.doctor.judgement import Judgement, unknown
from replication.errors import ClusterError, ReplicationError, first_line
from replication.kafka.api_versions import Need, Versions, lacking, release_of, served_versions
from replication.kafka.jvm import shared_jvm
from replication.kafka.quorum import Quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster:
    """A cluster of the file.

    Args:
        alias: Its name there.
        admin: The properties of its admin client.
        user: ``User:mirror``; "" if the login names none.
        is_source: Whether a flow reads from it.
        is_target: Whether a flow, or a heartbeat, is written to it.
    """

    alias: str
    admin: Mapping[str, str]
    user: str = ""
    is_source: bool = False
    is_target: bool = False

    @property
    def sides(self) -> list[str]:
        """Of flows on which it is."""
        on = (("source", self.is_source), ("target", self.is_target))
        return [side for side, is_on in on if is_on]


APART_SECONDS: Final = 2.0
"""From so much on two clocks are apart: those that NTP keeps are within a tenth of a second."""


def look_at_releases(
    alias: str, admin: Mapping[str, str], addresses: Iterable[str], sides: Collection[str]
) -> Iterator[Judgement]:
    """Yields what the brokers at *addresses* lack: while a cluster is updated they differ.

    Args:
        alias: The cluster.
        admin: Of an admin client, which is asked where brokers want a certificate first.
        addresses: Those that answer.
        sides: Of flows on which the cluster is.
    """
    is_tls = admin.get("security.protocol", "PLAINTEXT").upper().endswith("SSL")
    what, releases, unread = f"release of {alias}", set[str](), list[str]()
    needs: dict[Need, list[str]] = {}
    for address in addresses:
        try:
            versions = _versions(address, is_tls=is_tls)
        except (OSError, ValueError) as error:
            unread.append(f"{address}: {first_line(error)}")
            continue
        releases.add(release_of(versions))
        for need in lacking(versions, sides):
            needs.setdefault(need, []).append(address)
    yield from judge_releases(what, releases, needs)
    if not unread:
        return
    try:
        with Quorum(shared_jvm(), alias, admin) as quorum:
            is_known = quorum.is_known()
    except ReplicationError:
        is_known = False  # the row of the login says why
    found = Judgement(what=what, found="Kafka 3.3 or newer, with KRaft")
    yield found if is_known else unknown(what, "; ".join(unread))


def _versions(address: str, *, is_tls: bool) -> Versions:
    try:
        return served_versions(address, is_tls=is_tls)
    except TimeoutError:  # it has just answered: it has too much to do
        return served_versions(address, is_tls=is_tls)


def judge_releases(
    what: str, releases: Iterable[str], needs: Mapping[Need, list[str]]
) -> Iterator[Judgement]:
    """Yields what follows from the brokers' *releases*, and from what some of them lack."""
    texts = dict.fromkeys(need.consequence for need in needs)
    for text in texts:
        lacked = [need for need in needs if need.consequence == text]
        is_fatal = any(need.is_fatal for need in lacked)
        where = ", ".join(dict.fromkeys(one for need in lacked for one in needs[need]))
        yield Judgement(
            what=what,
            found=f"{where} is older than Kafka {lacked[0].since}: {text}",
            verdict="problem" if is_fatal else "warning",
            next_step=f"update these brokers to Kafka {lacked[0].since} or newer",
            exit_code=ClusterError.exit_code if is_fatal else 0,
        )
    if not needs and releases:
        found = ", ".join(sorted(releases, key=_numbers))
        yield Judgement(what=what, found=f"Kafka {found} or newer")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part)


def look_at_clock(alias: str, admin: Mapping[str, str]) -> Judgement:
    """Returns whether the clock of the cluster *alias* and that of this machine agree."""
    what = f"clock of {alias}"
    try:
        with Quorum(shared_jvm(), alias, admin) as quorum:
            skew = quorum.skew()
    except ReplicationError as error:
        return unknown(what, str(error))
    if skew is None:
        return unknown(what, "its controllers do not tell it; Kafka 3.3 and newer do, with KRaft")
    return judge_clock(what, alias, skew)


def judge_clock(what: str, alias: str, skew: float) -> Judgement:
    """Returns what follows from a clock that is ahead by *skew* seconds."""
    if abs(skew) < APART_SECONDS:
        return Judgement(what=what, found="agrees with that of this machine")
    direction = "ahead of" if skew > 0 else "behind"
    return Judgement(
        what=what,
        found=f"{abs(skew):.0f} s {direction} that of this machine, so that lag in seconds and "
        "latency are wrong by as much",
        verdict="warning",
        next_step=f"let NTP keep the time of this machine and of the controllers of {alias} "
        "(timedatectl, chronyc tracking)",
    )
