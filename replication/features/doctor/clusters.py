"""Whether the clusters of a file can be reached from here, how, and as whom."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from replication.control.partitions import PATIENCE_SECONDS
from replication.errors import ClusterError, ReplicationError, first_line
from replication.features.doctor.certificate import own_certificates, served_until
from replication.features.doctor.check_result import CheckResult, Verdict, failed, unknown
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import NEXT_STEPS, CallError
from replication.kafka.java_admin import READING, WRITING, Quorum, Quotas
from replication.kafka.jvm import shared_jvm
from replication.kafka.reach import (
    ANSWER_SECONDS,
    LOOK_SECONDS,
    MUTE,
    Need,
    Silence,
    Versions,
    find_mismatch,
    lacking,
    reach_of,
    release_of,
    served_versions,
)

# What the brokers of a cluster are: their releases, and their clock.


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster:
    """A cluster of the file, by its alias, and the properties of its admin client.

    *user* is ``User:mirror``, or "" if the login names none; a heartbeat makes a target, too.
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
) -> Iterator[CheckResult]:
    """Yields what the brokers at *addresses* lack: while a cluster is updated they differ.

    An admin client is asked where brokers want a certificate first.
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
    found = CheckResult(what=what, found="Kafka 3.3 or newer, with KRaft")
    yield found if is_known else unknown(what, "; ".join(unread))


def _versions(address: str, *, is_tls: bool) -> Versions:
    try:
        return served_versions(address, is_tls=is_tls)
    except TimeoutError:  # it has just answered: it has too much to do
        return served_versions(address, is_tls=is_tls)


def judge_releases(
    what: str, releases: Iterable[str], needs: Mapping[Need, list[str]]
) -> Iterator[CheckResult]:
    """Yields what follows from the brokers' *releases*, and from what some of them lack."""
    texts = dict.fromkeys(need.consequence for need in needs)
    for text in texts:
        lacked = [need for need in needs if need.consequence == text]
        is_fatal = any(need.is_fatal for need in lacked)
        where = ", ".join(dict.fromkeys(one for need in lacked for one in needs[need]))
        yield CheckResult(
            what=what,
            found=f"{where} is older than Kafka {lacked[0].since}: {text}",
            verdict="problem" if is_fatal else "warning",
            next_step=f"update these brokers to Kafka {lacked[0].since} or newer",
            exit_code=ClusterError.exit_code if is_fatal else 0,
        )
    if not needs and releases:
        found = ", ".join(sorted(releases, key=_numbers))
        yield CheckResult(what=what, found=f"Kafka {found} or newer")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part)


def look_at_clock(alias: str, admin: Mapping[str, str]) -> CheckResult:
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


def judge_clock(what: str, alias: str, skew: float) -> CheckResult:
    """Returns what follows from a clock that is ahead by *skew* seconds."""
    if abs(skew) < APART_SECONDS:
        return CheckResult(what=what, found="agrees with that of this machine")
    direction = "ahead of" if skew > 0 else "behind"
    return CheckResult(
        what=what,
        found=f"{abs(skew):.0f} s {direction} that of this machine, so that lag in seconds and "
        "latency are wrong by as much",
        verdict="warning",
        next_step=f"let NTP keep the time of this machine and of the controllers of {alias} "
        "(timedatectl, chronyc tracking)",
    )


# Until when certificates are valid.

DAYS_LEFT: Final = 21
"""From so few days of a certificate on there is a warning."""

OF_THE_BROKER: Final = "renew the certificate in the broker's ssl.keystore.location"


def look_at_certificate(alias: str, address: str) -> CheckResult:
    """Returns what follows from the certificate that a broker of *alias* shows at *address*."""
    what = f"certificate of {alias} at {address}"
    try:
        until = served_until(address)
    except (OSError, ValueError) as error:
        return unknown(what, str(error))
    return judge_certificate(what, until, datetime.now(timezone.utc))


def look_at_own(alias: str, admin: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yields what follows from the certificates in the stores of the clients of *alias*."""
    try:
        ends = own_certificates(shared_jvm(), admin)
    except ValueError as error:
        yield unknown(f"stores of {alias}", str(error))
        return
    for key, until in ends.items():
        where = f"certificate in {alias}.{key}"
        yield judge_certificate(where, until, datetime.now(timezone.utc), f"renew the {where}")


def judge_certificate(
    what: str, until: datetime, now: datetime, step: str = OF_THE_BROKER
) -> CheckResult:
    """Returns what follows from a certificate that is valid *until* then; *step* renews it."""
    days = (until - now).days
    if until <= now:
        return CheckResult(
            what=what,
            found=f"ended on {until:%Y-%m-%d}",
            verdict="problem",
            next_step=step,
            exit_code=ClusterError.exit_code,
        )
    is_near = days < DAYS_LEFT
    return CheckResult(
        what=what,
        found=f"valid until {until:%Y-%m-%d}, {days} days left",
        verdict="warning" if is_near else "ok",
        next_step=f"{step}, before it ends" if is_near else "",
    )


# How far away a cluster is, and whether the sockets of its brokers let that distance be filled.

FAR_S: Final = 0.02
LOOKS: Final = 5
"""So many times a cluster is asked that seems to be far away: this machine may be busy."""

SENT: Final = "socket.send.buffer.bytes"
RECEIVED: Final = "socket.receive.buffer.bytes"
ENOUGH: Final = 50_000_000
"""Bytes a second of one connection, below which a row warns."""

MEGA: Final = 1e6


def look_at_distance(asked: AskedCluster, cluster: Cluster) -> CheckResult:
    """Measures how long the smallest question takes, and reads what the brokers' sockets hold."""
    seconds = cluster.round_trip_s()
    for _ in range(1, LOOKS):
        if seconds < FAR_S:
            break
        seconds = min(seconds, cluster.round_trip_s())
    settings = cluster.broker_settings() if seconds >= FAR_S else {}
    return judge_distance(asked, seconds, settings)


def judge_distance(asked: AskedCluster, seconds: float, settings: Mapping[str, str]) -> CheckResult:
    """Returns what follows from a round trip of so many *seconds*.

    Brokers of a source send records, those of a target receive them; *settings* are a broker's, as
    far as this user may see them.
    """
    what, found = f"distance to {asked.alias}", f"a small request takes {1000 * seconds:.0f} ms"
    used = [
        key for key, is_used in ((SENT, asked.is_source), (RECEIVED, asked.is_target)) if is_used
    ]
    small = {
        key: int(settings[key])
        for key in used
        if key in settings and 0 <= int(settings[key]) < ENOUGH * seconds
    }
    if seconds < FAR_S or not small:
        return CheckResult(what=what, found=found)
    most = min(small.values()) / seconds / MEGA
    values = " and ".join(f"{key}={value}" for key, value in small.items())
    return CheckResult(
        what=what,
        found=f"{found}, and {values} lets a connection carry about {most:.1f} MB/s",
        verdict="warning",
        next_step=f"set {' and '.join(f'{key}=-1' for key in small)} in server.properties of the "
        f"brokers of {asked.alias} and restart them one by one, so that their kernels size the "
        "buffers by the distance; see conf/docs/performance.md",
    )


NOBODY: Final = "ANONYMOUS"
"""The user of a connection without a login."""


def look_at_quotas(asked: AskedCluster) -> Iterator[CheckResult]:
    """Yields the quotas of the user of the file; nothing if it may not see them."""
    alias, admin = asked.alias, asked.admin
    what = f"quotas of {alias}"
    keys = {*(READING if asked.is_source else ()), *(WRITING if asked.is_target else ())}
    user, client_id = asked.user.partition(":")[2] or NOBODY, admin.get("client.id", "")
    try:
        with Quotas(shared_jvm(), alias, admin) as quotas:
            found = [
                quota
                for quota in quotas.read()
                if quota.key in keys and quota.holds_back(user, client_id)
            ]
            servers = quotas.servers
    except ReplicationError as error:
        if not (isinstance(error, CallError) and error.is_denied):
            yield unknown(what, str(error))
        return
    for quota in found:
        whom = " and ".join(f"{kind} {name or 'default'}" for kind, name in quota.of.items())
        line = quota.removal(servers)
        yield CheckResult(
            what=what,
            found=f"the brokers hold clients back at {quota.key}={quota.value:.0f} ({whom})",
            verdict="warning",
            next_step=f"raise it if flows are to be faster than that, or remove it: {line}",
            commands=(line,),
        )
    if not found:
        yield CheckResult(what=what, found="none holds this user back")


Met = Mapping[str, Silence | None]
"""Why each address does not answer; None for one that does."""


def look_at_cluster(asked: AskedCluster) -> Iterator[CheckResult]:
    """Yields what is found of a cluster."""
    alias, admin = asked.alias, asked.admin
    servers = [one.strip() for one in admin.get("bootstrap.servers", "").split(",") if one.strip()]
    addresses = [server.rpartition("://")[2] for server in servers]
    met = _ask(admin, addresses)
    yield from judge_addresses(f"addresses of {alias}", alias, met)
    if met and all(met.values()):
        is_open = any(why and why.is_open for why in met.values())
        if is_open and (mismatch := find_mismatch(admin)):
            yield CheckResult(
                what=f"login to {alias}",
                found=mismatch.reason,
                verdict="problem",
                next_step=mismatch.step.format(alias=alias),
                exit_code=ClusterError.exit_code,
            )
        else:
            yield unknown(f"login to {alias}", "no address of the cluster answers")
        return
    answering = [address for address, silence in met.items() if silence is None]
    if admin.get("security.protocol", "PLAINTEXT").upper().endswith("SSL"):
        yield from (look_at_certificate(alias, address) for address in answering)
    yield from look_at_releases(alias, admin, answering, asked.sides)
    try:
        with Cluster(alias, admin, patience_s=PATIENCE_SECONDS) as cluster:
            uid, brokers = cluster.cluster_id(), sorted(cluster.brokers())
            advertised = _ask(admin, brokers)
            are_reached = not any(advertised.values())
            distance = look_at_distance(asked, cluster) if are_reached else None
    except ReplicationError as error:
        yield failed(f"login to {alias}", error)
        return
    found = f"{len(brokers)} broker(s), cluster id {uid}"
    yield CheckResult(what=f"login to {alias}", found=found)
    yield from judge_brokers(f"brokers of {alias}", alias, advertised)
    if distance is not None:  # it is measured where each broker can be reached
        yield distance
        yield look_at_clock(alias, admin)
        yield from look_at_quotas(asked)


def judge_addresses(what: str, alias: str, met: Met) -> Iterator[CheckResult]:
    """Yields what follows from what the addresses of ``bootstrap.servers`` *met*."""
    if not met:
        yield unknown(what, "bootstrap.servers is empty")
    elif all(met.values()):
        yield _silent(what, alias, met, "problem")
    elif any(met.values()):
        yield _silent(what, alias, met, "warning")
    else:
        yield CheckResult(what=what, found=f"{', '.join(met)} answer")


def judge_brokers(what: str, alias: str, met: Met) -> Iterator[CheckResult]:
    """Yields what follows from what the addresses that the brokers advertise *met*."""
    if any(met.values()):
        silent = ", ".join(f"{address}: {why.text}" for address, why in met.items() if why)
        yield CheckResult(
            what=what,
            found=f"cannot be reached as the cluster advertises them: {silent}",
            verdict="problem",
            next_step=f"let this machine reach these addresses, start the brokers that are down, "
            f"or correct advertised.listeners of the brokers of {alias}",
            exit_code=ClusterError.exit_code,
        )
    else:
        yield CheckResult(what=what, found=f"{', '.join(met)} answer")


def _silent(what: str, alias: str, met: Met, verdict: Verdict) -> CheckResult:
    silent = {address: why for address, why in met.items() if why}
    codes = dict.fromkeys(why.code for why in silent.values())
    return CheckResult(
        what=what,
        found="; ".join(f"{address}: {why.text}" for address, why in silent.items()),
        verdict=verdict,
        next_step="; ".join(NEXT_STEPS[code].format(alias=alias) for code in codes),
        exit_code=ClusterError.exit_code if verdict == "problem" else 0,
    )


def _ask(admin: Mapping[str, str], addresses: list[str]) -> Met:
    reach = reach_of(admin)
    asked = {address: reach.ask(address) for address in addresses}
    return {address: _answer(future) for address, future in asked.items()}


def _answer(future: "Future[Silence | None]") -> Silence | None:
    try:
        return future.result(ANSWER_SECONDS + LOOK_SECONDS)
    except Late:
        return MUTE
