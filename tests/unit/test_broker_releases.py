"""What a broker is, by the requests that it knows, by its clock, and by its replicas."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.demo.brokers import HOST
from replication.features.doctor.clusters import judge_clock, look_at_releases
from replication.features.doctor.host import judge_java
from replication.kafka.java_admin import Quota, skew_between
from replication.kafka.reach import Versions, lacking, read_versions, release_of, served_versions
from replication.model import Topic, TopicSetting
from replication.topics.topic_plan import too_few_in_sync

KAFKA_4: Versions = {
    0: (0, 13),
    1: (4, 17),
    3: (0, 13),
    11: (0, 9),
    19: (2, 7),
    22: (0, 5),
} | dict.fromkeys((44, 47, 60, 61, 65, 66, 75), (0, 1))
KAFKA_2_0: Versions = {0: (0, 6), 1: (0, 8), 3: (0, 6), 11: (0, 3), 19: (0, 3), 22: (0, 1)}
KAFKA_0_10: Versions = {0: (0, 2), 1: (0, 3), 3: (0, 2), 11: (0, 1), 19: (0, 1)}


def answer(versions: Versions) -> bytes:
    """As a broker answers a request for its versions."""
    entries = b"".join(pack(">hhh", key, *span) for key, span in versions.items())
    return pack(">ihi", 1, 0, len(versions)) + entries


@contextmanager
def broker(versions: Versions) -> Iterator[str]:
    """The address of a port that answers one request as a broker with *versions* does."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            body = answer(versions)
            connection.sendall(pack(">i", len(body)) + body)

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"{HOST}:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("versions", "release"), [(KAFKA_4, "4.0"), (KAFKA_2_0, "0.11"), (KAFKA_0_10, "")]
)
def test_the_release_of_a_broker(versions: Versions, release: str) -> None:
    assert release_of(read_versions(answer(versions))) == release


@pytest.mark.parametrize(
    ("versions", "side", "verdicts"),
    [
        (KAFKA_4, "source", ["ok"]),
        (KAFKA_4, "target", ["ok"]),
        (KAFKA_2_0, "source", ["warning", "warning"]),
        (KAFKA_2_0, "target", ["problem", "warning", "warning", "warning"]),
        (KAFKA_0_10, "source", ["problem", "warning", "warning"]),
    ],
)
def test_a_broker_that_is_too_old(versions: Versions, side: str, verdicts: list[str]) -> None:
    with broker(versions) as address:
        found = list(look_at_releases("A", {"bootstrap.servers": address}, [address], [side]))

    assert [one.verdict for one in found] == verdicts
    assert all(one.exit_code == (3 if one.verdict == "problem" else 0) for one in found)
    if verdicts != ["ok"]:
        assert all(address in one.found for one in found)
        assert all("update these brokers to Kafka" in one.next_step for one in found)


def test_what_is_no_broker_is_no_old_one() -> None:
    with broker({}) as address, pytest.raises(ValueError, match="answers with the error 0"):
        served_versions(address, is_tls=False)


def test_nothing_is_asked_of_a_cluster_that_no_flow_uses() -> None:
    assert list(lacking({}, [])) == []


@pytest.mark.parametrize("data", [b"", b"\0" * 9, pack(">ihi", 1, 35, 0), answer(KAFKA_4)[:-1]])
def test_what_is_no_answer_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="answer"):
        read_versions(data)


@given(
    skew=st.floats(-1e5, 1e5),
    asked_at=st.floats(1.7e9, 1.8e9),
    there=st.floats(0, 60),
    back=st.floats(0, 60),
)
def test_a_slow_answer_is_no_skew(skew: float, asked_at: float, there: float, back: float) -> None:
    told = int((asked_at + there + skew) * 1000) / 1000

    found = skew_between(told, asked_at, asked_at + there + back)

    assert abs(found) <= abs(skew) + 0.002
    assert abs(found - skew) <= there + back + 0.002
    assert found == 0 or (found > 0) == (skew > 0)


@pytest.mark.parametrize(
    ("skew", "verdict", "text"),
    [
        (0.0, "ok", "agrees"),
        (-1.9, "ok", "agrees"),
        (3600.4, "warning", "3600 s ahead of that of this machine"),
        (-90.0, "warning", "90 s behind that of this machine"),
    ],
)
def test_a_clock(skew: float, verdict: str, text: str) -> None:
    found = judge_clock("clock of A", "A", skew)

    assert found.verdict == verdict
    assert text in found.found
    assert ("NTP" in found.next_step) == (verdict == "warning")


@pytest.mark.parametrize(
    ("in_sync", "needed", "expected"),
    [
        (((3, 3), (3, 3)), 2, ""),
        (((1, 3), (3, 3)), 2, "partition 0 has 1"),
        (((3, 3), (0, 3)), 2, ""),  # it has no leader, which has a row of its own
        (((1, 1), (1, 1)), 2, ""),  # a broker counts all replicas of a topic as enough
        (((1, 2), (2, 2)), 3, "partition 0 has 1"),
        ((), 2, ""),
    ],
)
def test_replicas_in_sync(in_sync: tuple[tuple[int, int], ...], needed: int, expected: str) -> None:
    topic = Topic("A.t", "id", len(in_sync), in_sync=in_sync)
    settings = {"min.insync.replicas": TopicSetting(str(needed), "topic")}

    found = too_few_in_sync(topic, settings, "B", "b:1")

    assert bool(found) == bool(expected)
    assert expected in found
    assert not too_few_in_sync(topic, {}, "B", "b:1")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('openjdk version "17.0.15" 2025-04-15', ""),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "21" 2023-09-19', ""),
        ('java version "1.8.0_402"', "is Java 8"),
        ('openjdk version "26-ea" 2026-03-17', "is Java 26"),
        ("", "does not say its version (no answer)"),
    ],
)
def test_a_java(said: str, problem: str) -> None:
    _, text = judge_java("java", said)

    assert bool(text) == bool(problem)
    assert problem in text
    assert text.endswith("; install a JDK 17 or 21, or set JAVA_HOME to one") == bool(problem)


@pytest.mark.parametrize(
    ("of", "effect"),
    [
        ({"user": "mirror"}, "holds back"),
        ({"user": None}, "holds back"),
        ({"user": "other"}, ""),
        ({"user": "mirror", "client-id": None}, "holds back"),
        ({"user": "mirror", "client-id": "other"}, ""),
        ({"client-id": "mirror-1"}, "holds back"),
        ({"ip": "10.0.0.1"}, ""),
    ],
)
def test_whom_a_quota_holds_back(of: dict[str, str | None], effect: str) -> None:
    quota = Quota(of, "producer_byte_rate", 1e6)

    assert quota.holds_back("mirror", "mirror-1") == bool(effect)


def test_the_line_that_removes_a_quota() -> None:
    quota = Quota({"user": None, "client-id": "a b"}, "producer_byte_rate", 1e6)

    assert quota.removal("b:1") == (
        "kafka-configs --bootstrap-server b:1 --alter --entity-type users --entity-default "
        "--entity-type clients --entity-name 'a b' --delete-config producer_byte_rate"
    )
