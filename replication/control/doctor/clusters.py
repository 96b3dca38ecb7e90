"""Whether the clusters of a file can be reached from here, how, and as whom."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late

from replication.control.doctor.brokers import AskedCluster, look_at_clock, look_at_releases
from replication.control.doctor.certificates import look_at_certificate
from replication.control.doctor.distance import look_at_distance
from replication.control.doctor.judgement import Judgement, Verdict, failed, unknown
from replication.control.doctor.quotas import look_at_quotas
from replication.control.partitions import PATIENCE_SECONDS
from replication.errors import ClusterError, ReplicationError
from replication.kafka.cluster import Cluster
from replication.kafka.diagnosis import NEXT_STEPS
from replication.kafka.listener import find_mismatch
from replication.kafka.reach import ANSWER_SECONDS, LOOK_SECONDS, MUTE, Silence, reach_of

Met = Mapping[str, Silence | None]
"""Why each address does not answer; None for one that does."""


def look_at_cluster(asked: AskedCluster) -> Iterator[Judgement]:
    """Yields what is found of a cluster."""
    alias, admin = asked.alias, asked.admin
    servers = [one.strip() for one in admin.get("bootstrap.servers", "").split(",") if one.strip()]
    addresses = [server.rpartition("://")[2] for server in servers]
    met = _ask(admin, addresses)
    yield from judge_addresses(f"addresses of {alias}", alias, met)
    if met and all(met.values()):
        is_open = any(why and why.is_open for why in met.values())
        if is_open and (mismatch := find_mismatch(admin)):
            yield Judgement(
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
    yield Judgement(what=f"login to {alias}", found=found)
    yield from judge_brokers(f"brokers of {alias}", alias, advertised)
    if distance is not None:  # it is measured where each broker can be reached
        yield distance
        yield look_at_clock(alias, admin)
        yield from look_at_quotas(asked)


def judge_addresses(what: str, alias: str, met: Met) -> Iterator[Judgement]:
    """Yields what follows from what the addresses of ``bootstrap.servers`` *met*."""
    if not met:
        yield unknown(what, "bootstrap.servers is empty")
    elif all(met.values()):
        yield _silent(what, alias, met, "problem")
    elif any(met.values()):
        yield _silent(what, alias, met, "warning")
    else:
        yield Judgement(what=what, found=f"{', '.join(met)} answer")


def judge_brokers(what: str, alias: str, met: Met) -> Iterator[Judgement]:
    """Yields what follows from what the addresses that the brokers advertise *met*."""
    if any(met.values()):
        silent = ", ".join(f"{address}: {why.text}" for address, why in met.items() if why)
        yield Judgement(
            what=what,
            found=f"cannot be reached as the cluster advertises them: {silent}",
            verdict="problem",
            next_step=f"let this machine reach these addresses, start the brokers that are down, "
            f"or correct advertised.listeners of the brokers of {alias}",
            exit_code=ClusterError.exit_code,
        )
    else:
        yield Judgement(what=what, found=f"{', '.join(met)} answer")


def _silent(what: str, alias: str, met: Met, verdict: Verdict) -> Judgement:
    silent = {address: why for address, why in met.items() if why}
    codes = dict.fromkeys(why.code for why in silent.values())
    return Judgement(
        what=what,
        found="; ".join(f"{address}: {why.text}" for address, why in silent.items()),
        verdict=verdict,
        next_step="; ".join(NEXT_STEPS[code].format(alias=alias) for code in codes),
        exit_code=ClusterError.exit_code if verdict == "problem" else 0,
    )


def _ask(admin: Mapping[str, str], addresses: list[str]) -> Met:
    """Asks all *addresses* at once."""
    reach = reach_of(admin)
    asked = {address: reach.ask(address) for address in addresses}
    return {address: _answer(future) for address, future in asked.items()}


def _answer(future: "Future[Silence | None]") -> Silence | None:
    try:
        return future.result(ANSWER_SECONDS + LOOK_SECONDS)
    except Late:
        return MUTE
