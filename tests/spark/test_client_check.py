"""``validate`` asks Java's own client, so that no property is wrong only when the flow starts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replication.config.file import load_config
from replication.control.clients import clients_of
from replication.kafka.jvm import rejected_properties
from replication.spark.session import jvm_of
from tests.support.commands import replication

FILE = """
clusters=A,B
A.bootstrap.servers=localhost:1
B.bootstrap.servers=localhost:2
A->B.enabled=true
"""


def validated(folder: Path, extra: str, *options: str) -> tuple[int, str]:
    file = folder / "mm2.properties"
    file.write_text(FILE + extra)
    done = replication("validate", file, *options)
    return done.returncode, done.stdout + done.stderr


def test_values_that_java_rejects_are_named_all_at_once(tmp_path: Path) -> None:
    code, output = validated(
        tmp_path,
        "B.producer.batch.size=-5\n"
        "B.producer.compression.gzip.level=99\n"
        "A.consumer.max.poll.records=99999999999\n",
    )

    assert code == 2
    assert sorted(line.partition(": ")[0] for line in output.splitlines()[1:]) == [
        "  - A.consumer.max.poll.records",
        "  - B.producer.batch.size",
        "  - B.producer.compression.gzip.level",
    ]


def test_a_job_asks_the_jvm_of_its_driver(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE + "B.producer.batch.size=-5\n")

    found = rejected_properties(jvm_of(spark), clients_of(load_config(str(file))))

    assert [line.partition(": ")[0] for line in found] == ["B.producer.batch.size"]


def test_a_property_of_every_client_is_checked_for_each(tmp_path: Path) -> None:
    code, output = validated(tmp_path, "B.client.dns.lookup=never\n")

    assert code == 2
    for role in ("producer", "admin"):
        assert f"B.{role}.client.dns.lookup: Invalid value never" in output


def test_a_class_that_only_a_jar_of_ones_own_has_is_no_problem(tmp_path: Path) -> None:
    code, output = validated(
        tmp_path,
        "A.security.protocol=SASL_SSL\nA.sasl.mechanism=OAUTHBEARER\n"
        "A.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        'required unsecuredLoginStringClaim_sub="x";\n'
        "A.sasl.client.callback.handler.class=org.example.Handler\n"
        "A.sasl.login.callback.handler.class=org.example.Login\n",
    )

    assert code == 0, output


def test_a_weak_producer_is_valid_with_a_warning_and_a_problem_if_strict(tmp_path: Path) -> None:
    weak = "B.producer.acks=1\nB.producer.retries=0\nB.producer.enable.idempotence=false\n"
    weak += "B.producer.delivery.timeout.ms=1000\n"

    code, output = validated(tmp_path, weak)
    assert (code, output.count("warning: B.producer.")) == (0, 4)
    code, output = validated(tmp_path, weak, "--strict")
    assert (code, output.count("  - B.producer.")) == (2, 4)


@pytest.mark.parametrize(("master", "code"), [("local", 2), ("yarn", 0)])
def test_a_missing_store_is_a_problem_where_the_job_runs(
    tmp_path: Path, master: str, code: int
) -> None:
    extra = f"A.security.protocol=SSL\nA.ssl.truststore.location={tmp_path}/none.pem\n"
    extra += "A.ssl.truststore.type=PEM\nstate.dir=hdfs:///x\n"

    found, output = validated(tmp_path, extra, "--master", master)

    assert found == code
    assert f"A.ssl.truststore.location: cannot read '{tmp_path}/none.pem'" in output


def test_keys_are_looked_up() -> None:
    found = replication("keys", Path("rewind"))
    unknown = replication("keys", Path("interval.secs"))

    assert found.stdout.splitlines()[-1] == "sync.group.offsets.on.rewind: keep"
    assert unknown.returncode == 8
    assert unknown.stderr.startswith("no key contains 'interval.secs'; the most similar one is ")
