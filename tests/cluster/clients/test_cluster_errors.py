"""A cluster that does not answer as it should is named with the cause and what to correct."""

from collections.abc import Collection

import pytest

from replication.demo.brokers import free_port
from replication.kafka.api import LIST_OFFSETS, WRITE_TOPIC, ClientError, ClientFailure, Listing
from replication.kafka.calls import Calls
from replication.kafka.cluster import Cluster
from replication.kafka.consumer_groups import Groups
from replication.kafka.diagnosis import CallError, InterruptedCallError, call_error
from replication.kafka.java_clients import JavaSender
from replication.kafka.jvm import shared_jvm
from replication.kafka.reader import read_records
from replication.model import TopicPartition
from tests.support.clients import properties
from tests.support.local import Clusters
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("each_client")]


def unreachable(**settings: str) -> Cluster:
    """A cluster that does not answer, with little patience; ``_`` in a key stands for a dot."""
    keys = {key.replace("_", "."): value for key, value in settings.items()}
    return Cluster("X", {"default.api.timeout.ms": "1500", **keys})


@pytest.mark.parametrize(
    ("settings", "code", "reason", "next_step"),
    [
        pytest.param(
            {},
            "_TRANSPORT",
            "connection refused",
            "check that a broker listens there",
            id="nothing listens",
        ),
        pytest.param(
            {"bootstrap_servers": "no.such.host.invalid:9092"},
            "_RESOLVE",
            "unknown host",
            "correct the host name",
            id="unknown host",
        ),
    ],
)
def test_a_cluster_that_cannot_be_reached(
    settings: dict[str, str],
    code: str,
    reason: str,
    next_step: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = {"bootstrap_servers": f"127.0.0.1:{free_port()}", **settings}
    cluster = unreachable(**settings)

    failures = []
    for call in (cluster.cluster_id, cluster.topic_names, lambda: cluster.describe(["t"])):
        with pytest.raises(CallError) as failure:
            call()
        failures.append(failure.value)
    with pytest.raises(CallError) as failure:
        read_records(
            {"bootstrap.servers": settings["bootstrap_servers"], "request.timeout.ms": "1500"},
            TopicPartition("t", 0),
            0,
            1,
            "read_committed",
        )

    for error in (*failures, failure.value):
        assert (error.code, error.exit_code) == (code, 3)
        assert f"bootstrap.servers={settings['bootstrap_servers']}" in str(error)
        assert reason in str(error)
        assert next_step in str(error)
    assert "listing topics failed" in str(failures[1])
    assert capfd.readouterr().err == ""


def test_tls_to_a_plain_listener(clusters: Clusters) -> None:
    cluster = unreachable(bootstrap_servers=clusters[0].bootstrap, security_protocol="SSL")

    with pytest.raises(CallError, match=r"speaks PLAINTEXT and not SSL; set X\.security"):
        cluster.topic_names()


def test_rejected_credentials_end_the_wait_and_stay_secret(clusters: Clusters) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    cluster = Cluster(
        "X",
        {
            **properties(clusters[0]),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="me" password="hidden-word";',
        },
    )

    with (
        in_time(5, "the failure"),
        pytest.raises(CallError, match=r"(check|set) X\.sasl\.mechanism") as failure,
    ):
        cluster.cluster_id()

    assert "hidden-word" not in str(failure.value) + repr(cluster)


def test_a_partition_without_a_leader_is_not_reported_as_absent() -> None:
    calls = Calls("X", {"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": "300"}, "test")
    asked = []

    def ask(keys: Collection[str], _timeout_s: float) -> dict[str, int | ClientFailure]:
        asked.append(list(keys))
        return dict.fromkeys(keys, ClientFailure("UNKNOWN_TOPIC_OR_PARTITION", "no such topic"))

    with pytest.raises(CallError, match=r"listing offsets of there failed: no broker led it"):
        calls.results(LIST_OFFSETS, ask, ["there", "gone"], {"there"}.intersection)
    assert asked[:2] == [["there", "gone"], ["there"]]


def test_an_epoch_that_the_client_remembers_wrongly_is_read_again(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart whose first metadata were old: seen on a machine with a load of 14."""
    calls = Calls("A", {**properties(clusters[0]), "request.timeout.ms": "10000"}, "test")
    metadata_read: list[float] = []
    listing = calls.admin.listing

    def read_metadata(timeout_s: float) -> Listing:
        metadata_read.append(timeout_s)
        return listing(timeout_s)

    def ask(keys: Collection[str], _timeout_s: float) -> dict[str, int | ClientFailure]:
        old = ClientFailure("FENCED_LEADER_EPOCH", "old")
        return dict.fromkeys(keys, 7 if metadata_read else old)

    monkeypatch.setattr(calls.admin, "listing", read_metadata)
    try:
        assert calls.results(LIST_OFFSETS, ask, ["t-0"]) == {"t-0": 7}
    finally:
        calls.close()


def test_a_value_that_the_client_rejects() -> None:
    with pytest.raises(CallError, match=r"reconnect\.backoff\.ms.*correct that property"):
        unreachable(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms="-7")


def test_a_call_that_this_process_interrupts_blames_no_cluster(clusters: Clusters) -> None:
    """As when Spark stops a query in whose batch a round of checkpoints runs."""
    jvm = shared_jvm()
    with Groups(jvm, "A", properties(clusters[0])) as groups:
        groups.states()
        jvm.java.lang.Thread.currentThread().interrupt()
        with pytest.raises(InterruptedCallError, match="cluster A is not to blame"):
            groups.states()
        jvm.java.lang.Thread.currentThread().interrupt()
        with pytest.raises(InterruptedCallError, match="cluster A is not to blame"):
            groups.readable(["a group"])

        assert isinstance(groups.states(), dict)


def test_a_client_that_this_process_has_closed_blames_no_cluster(clusters: Clusters) -> None:
    """As for a thread that outlives the stop of its flow."""
    with Cluster("A", properties(clusters[0])) as cluster:
        cluster.topic_names()

    with pytest.raises(InterruptedCallError, match="cluster A is not to blame"):
        cluster.topic_names()


def test_a_write_that_this_process_interrupts_blames_no_cluster(clusters: Clusters) -> None:
    jvm = shared_jvm()
    sender = JavaSender(jvm, properties(clusters[0]))
    sender.send(TopicPartition("t", 0), b"", b"", lambda *_: None)
    jvm.java.lang.Thread.currentThread().interrupt()

    with pytest.raises(ClientError) as caught:
        sender.flush(1.0)
    failure = caught.value.failure
    with pytest.raises(InterruptedCallError, match="writing to topic t was ended by this process"):
        call_error("A", {}, WRITE_TOPIC.of("t"), failure)
