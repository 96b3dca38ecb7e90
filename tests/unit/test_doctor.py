"""What ``doctor`` makes of what it has seen: facts in, rows and an exit code out."""

import ssl
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from replication.control.lease_groups import LeaseGroup
from replication.features.doctor.certificate import valid_until
from replication.features.doctor.check_result import (
    CheckResult,
    exit_code,
    failed,
    script,
    told,
    unknown,
    worst,
)
from replication.features.doctor.clusters import (
    Met,
    judge_addresses,
    judge_brokers,
    judge_certificate,
)
from replication.features.doctor.host import judge_lease, judge_port, judge_size, judge_space
from replication.features.doctor.topics import judge_causes, judge_plan, judge_rights
from replication.kafka.api import DESCRIBE_GROUP, ClientFailure
from replication.kafka.diagnosis import CallError, call_error
from replication.kafka.reach import Silence
from replication.model import Flow, NewTopic, TopicAcl, TopicPartition
from replication.state.locks import LockOwner
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.faults import TopicFault, causes_of
from replication.upkeep.prepare import MissingRight, together, with_denials

NOW = datetime(2026, 11, 26, tzinfo=timezone.utc)
FLOW = Flow("A", "B")
REFUSED = Silence("_TRANSPORT", "connection refused")
NO_HOST = Silence("_RESOLVE", "unknown host")
OWNER = LockOwner("etl-7", 7, "2026-11-26T09:00:00+00:00")


def plan_of(*topics: str, rejected: Collection[str] = ()) -> TopicPlan:
    """The plan of a flow with these topics, none of which is on the target yet."""
    return TopicPlan(
        topics={name: f"A.{name}" for name in topics},
        create=tuple(NewTopic(f"A.{name}", 1, 3) for name in topics),
        grow={},
        partitions=tuple(TopicPartition(name, 0) for name in topics),
        source_ids={},
        rejected=dict.fromkeys(rejected, "too few brokers"),
    )


def refused(plan: TopicPlan, *topics: str) -> TopicPlan:
    """The plan without *topics*, which the target would not create."""
    return plan_of(*sorted(plan.topics.keys() - set(topics)), rejected=topics)


def only(findings: Iterable[CheckResult]) -> CheckResult:
    """The only row."""
    (one,) = findings
    return one


@pytest.mark.parametrize(
    ("met", "verdict", "code", "step"),
    [
        ({"a:1": None, "b:1": None}, "ok", 0, ""),
        ({"a:1": None, "b:1": REFUSED}, "warning", 0, "check that a broker listens there"),
        ({"a:1": REFUSED, "b:1": NO_HOST}, "problem", 3, "correct the host name in A."),
        ({}, "unknown", 0, ""),
    ],
)
def test_addresses(met: Met, verdict: str, code: int, step: str) -> None:
    found = only(judge_addresses("addresses of A", "A", met))

    assert (found.verdict, found.exit_code) == (verdict, code)
    assert step in found.next_step
    assert bool(found.next_step) == (verdict in {"warning", "problem"})


def test_a_broker_whose_advertised_address_leads_nowhere_is_a_problem() -> None:
    found = only(judge_brokers("brokers of A", "A", {"10.0.0.1:9092": REFUSED, "b:1": None}))

    assert (found.verdict, found.exit_code) == ("problem", 3)
    assert "10.0.0.1:9092: connection refused" in found.found
    assert "b:1" not in found.found
    assert "advertised.listeners" in found.next_step


@pytest.mark.parametrize(
    ("left", "verdict"),
    [(-1, "problem"), (0, "problem"), (1, "warning"), (20, "warning"), (21, "ok"), (400, "ok")],
)
def test_a_certificate_is_a_warning_before_it_ends(left: int, verdict: str) -> None:
    found = judge_certificate("certificate of A", NOW + timedelta(days=left), NOW)

    assert found.verdict == verdict
    assert found.exit_code == (3 if verdict == "problem" else 0)
    assert bool(found.next_step) == (verdict != "ok")


def test_the_end_of_every_certificate_of_this_machine_is_read_as_openssl_reads_it() -> None:
    context = ssl.create_default_context()
    file = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
    if not Path(file).is_file():
        pytest.skip("this machine has no certificates")
    context.load_verify_locations(file)
    encoded = {valid_until(der) for der in context.get_ca_certs(binary_form=True)}
    ends = [str(certificate["notAfter"]) for certificate in context.get_ca_certs()]

    assert len(ends) > 1
    assert encoded == {
        datetime.fromtimestamp(ssl.cert_time_to_seconds(end), timezone.utc) for end in ends
    }


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x82", b"no certificate", bytes(40)])
def test_what_is_no_certificate_is_said_to_be_none(der: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        valid_until(der)


def test_a_text_is_split_into_what_is_wrong_and_what_to_do() -> None:
    text = "cluster B: it failed; stop it; run: kafka-topics --delete --topic t (if you must)"

    found = told("x", text, "warning")

    assert found.found == "cluster B: it failed"
    assert found.next_step == "stop it; run: kafka-topics --delete --topic t (if you must)"
    assert found.commands == ("kafka-topics --delete --topic t",)


def test_a_text_without_a_step_leads_to_itself() -> None:
    assert told("x", "t1 and t2 have one name", "problem", 5).next_step == "do what this row says"


def test_the_line_of_a_missing_right_names_user_operation_and_topic() -> None:
    right = MissingRight("B", "b:1", "WRITE", "A.orders")
    (found,) = judge_rights([right], {"B": "User:mirror"})

    line = (
        "kafka-acls --bootstrap-server b:1 --add --allow-principal 'User:mirror' "
        "--operation Write --topic 'A.orders'"
    )
    assert found.commands == (line,)
    assert found.verdict == "problem"


def test_the_code_is_that_of_the_first_problem() -> None:
    fine, broken = (
        CheckResult(what="a", found="b"),
        CheckResult(what="c", found="d", verdict="problem", next_step="e", exit_code=3),
    )
    later = CheckResult(what="f", found="g", verdict="problem", next_step="h", exit_code=5)

    assert exit_code([fine, unknown("x", "y"), broken, later]) == 3
    assert exit_code([fine, unknown("x", "y")]) == 0
    assert worst([fine, unknown("x", "y"), broken]) == "problem"
    assert worst([fine, CheckResult(what="w", found="", verdict="warning"), unknown("x", "y")]) == (
        "unknown"
    )
    assert worst([fine]) == "ok"


def test_what_mends_it_is_a_script_without_repetitions() -> None:
    (acl,) = judge_rights([MissingRight("B", "b:1", "READ", "t")], {"B": "User:mirror"})
    words = CheckResult(what="heap", found="small", verdict="warning", next_step="DRIVER_MEMORY=4g")

    lines = list(script([acl, CheckResult(what="a", found="b"), words, acl, words]))

    assert lines == [
        "# permissions on B: READ on topic t of B is not allowed",
        *acl.commands,
        "# heap: small",
        "# DRIVER_MEMORY=4g",
    ]


def test_a_size_that_is_not_known_is_not_taken_for_nothing() -> None:
    found = only(judge_size({FLOW: None}, {FLOW: "auto"}, 2048, None))

    assert found.verdict == "unknown"
    assert "A->B" in found.found


@pytest.mark.parametrize(
    ("partitions", "heap_mb", "files", "expected"),
    [
        (10, 2048, None, ["ok", "ok", "ok"]),
        (1000, 2048, None, ["ok", "warning", "ok"]),
        (10, 2048, 300, ["ok", "ok", "problem"]),
    ],
)
def test_heap_and_open_files(
    partitions: int, heap_mb: int, files: int | None, expected: list[str]
) -> None:
    found = list(judge_size({FLOW: partitions}, {FLOW: "realtime"}, heap_mb, files))

    assert [one.verdict for one in found] == expected
    assert all(one.next_step for one in found if one.verdict != "ok")


def test_a_port_that_the_running_job_may_have_is_unknown() -> None:
    assert judge_port("metrics.port 9404", "", is_running=False).verdict == "ok"
    assert judge_port("metrics.port 9404", "in use", is_running=True).verdict == "unknown"
    taken = judge_port("metrics.port 9404", "in use", is_running=False)
    assert taken.verdict == "warning"
    assert "another metrics.port" in taken.next_step


@pytest.mark.parametrize(
    ("free_mb", "verdict", "code"),
    [(64, "warning", 0), (1023, "warning", 0), (1024, "ok", 0)],
)
def test_free_space(free_mb: int, verdict: str, code: int) -> None:
    found = judge_space("state.dir /x", free_mb, is_new=False)

    assert (found.verdict, found.exit_code) == (verdict, code)


@pytest.mark.parametrize(
    ("owner", "members", "reason", "verdict"),
    [
        pytest.param(None, frozenset(), "", "ok", id="free"),
        pytest.param(OWNER, frozenset({"me"}), "", "ok", id="runs here"),
        pytest.param(None, frozenset({"x"}), "", "warning", id="runs elsewhere"),
        pytest.param(OWNER, frozenset(), "", "warning", id="has lost its lease"),
        pytest.param(None, None, "B does not answer", "unknown", id="nobody knows"),
        pytest.param(None, None, "no authorization module answers", "unknown", id="a like word"),
    ],
)
def test_leases(
    owner: LockOwner | None, members: frozenset[str] | None, reason: str, verdict: str
) -> None:
    found = judge_lease("lease", "mirror.yaml", owner, LeaseGroup("g", "B", members, reason))

    assert found.verdict == verdict
    assert bool(found.next_step) == (verdict in {"warning", "problem"})


def test_a_lease_whose_group_may_not_be_described() -> None:
    code = "GROUP_AUTHORIZATION_FAILED"
    denied = CallError("cluster B: describing group g failed; allow it", code)

    found = judge_lease(
        "lease", "mirror.yaml", None, LeaseGroup("g", "B", None, str(denied), denied)
    )

    assert (found.verdict, found.exit_code, found.next_step) == ("problem", 3, "allow it")


def test_an_error_hands_over_the_command_that_it_names() -> None:
    call = DESCRIBE_GROUP.of("a {b} (c)")
    failure = ClientFailure("GROUP_AUTHORIZATION_FAILED", "not authorized")

    found = failed("x", call_error("B", {"bootstrap.servers": "b:1"}, call, failure))

    (command,) = found.commands
    assert command.startswith("kafka-acls --bootstrap-server b:1 --add")
    assert command.endswith("--operation Describe --group 'a {b} (c)'")


@pytest.mark.parametrize(
    ("topics", "lost", "verdicts"),
    [
        pytest.param(2, 0, ["ok"], id="all are created"),
        pytest.param(2, 1, ["ok"], id="one is refused, of which a row of its own tells"),
        pytest.param(2, 2, ["problem"], id="nothing is left"),
    ],
)
def test_topics_that_would_be_set_aside(topics: int, lost: int, verdicts: list[str]) -> None:
    names = [f"t{number}" for number in range(topics)]
    plan = plan_of(*names)

    found = list(judge_plan("topics of A->B", plan, refused(plan, *names[:lost])))

    assert [one.verdict for one in found] == verdicts
    assert exit_code(found) == (5 if lost == topics else 0)


FACTOR = (
    "cluster B (bootstrap.servers=b:1): creating topic {} failed: 3 of 1; set replication.factor"
)


def test_one_cause_of_500_topics_is_a_row_with_the_lines_of_the_file() -> None:
    names = [f"t{number:03}" for number in range(500)]
    internal = {
        "A.checkpoints.internal": "checkpoints.topic.replication.factor",
        "heartbeats": "heartbeats.topic.replication.factor",
    }
    short = [
        TopicFault(name, FACTOR.format(f"A.{name}"), "B", "replication.factor", f"A.{name}")
        for name in names
    ]
    short += [
        TopicFault(name, FACTOR.format(name), "B", key, is_internal=True)
        for name, key in internal.items()
    ]
    denied = [
        TopicFault(
            f"d{name}",
            f"creating topic A.d{name} failed: not authorized; allow Create: kafka-acls "
            f"--bootstrap-server b:1 --add --topic 'A.d{name}' (acls prints all)",
            copy=f"A.d{name}",
        )
        for name in names
    ]
    own = TopicFault("checkpoints", FACTOR.format("checkpoints"), "A", "a.key", is_internal=True)

    too_many, refused_, alone = judge_causes(
        "A->B", causes_of([*short, *denied, own], {"A": 2, "B": 1})
    )

    both = "500 topics and 2 internal topics (t000, t001, t002 and 497 more)"
    assert too_many.what == f"topics of A->B: {both}"
    assert too_many.found == "cluster B has 1 broker(s), fewer than the replication factor"
    assert too_many.next_step == (
        "write in the file: checkpoints.topic.replication.factor: 1, "
        "heartbeats.topic.replication.factor: 1, replication.factor: 1"
    )
    assert (too_many.verdict, exit_code([too_many])) == ("problem", 5)
    assert refused_.what == "topics of A->B: 500 topics (dt000, dt001, dt002 and 497 more)"
    assert len(refused_.commands) == 500
    assert (alone.verdict, exit_code([alone])) == ("warning", 0)
    assert alone.next_step == "write in the file: a.key: 2"


def test_what_is_denied_is_not_mended_by_an_allow() -> None:
    def acl(permission: str, topic: str = "A.", principal: str = "User:mirror") -> TopicAcl:
        return TopicAcl(topic, "PREFIXED", principal, "*", "WRITE", permission)

    deny = acl("DENY", "A.o")
    right = MissingRight("B", "b:1", "WRITE", "A.orders", (deny,), is_allowed=True)
    others = [replace(right, topic=f"A.o{number}") for number in range(499)]
    (found,) = judge_rights([right, *others], {"B": "User:mirror"})

    assert found.next_step == (
        "kafka-acls --bootstrap-server b:1 --remove --force --deny-principal 'User:mirror' "
        "--deny-host '*' --operation Write --topic 'A.o' --resource-pattern-type prefixed"
    )
    assert found.commands == (found.next_step,)
    assert found.found.startswith("WRITE on 500 topics of B (A.o0, A.o1, ")
    assert found.found.endswith("is denied (DENY WRITE A.o* to User:mirror from *)")
    assert right.lines("User:mirror") == found.commands
    (unknown_,) = judge_rights([replace(right, is_allowed=False)], {"B": "User:mirror"})
    assert len(unknown_.commands) == 2, "nothing allows it either"
    assert not deny.concerns("A.orders", "READ")
    assert not deny.concerns("B.orders", "WRITE")

    lacking = MissingRight("B", "b:1", "WRITE", "A.orders")
    other, everybody = acl("DENY", principal="User:other"), acl("DENY", principal="User:*")
    acls = [acl("ALLOW"), deny, other]
    assert with_denials(lacking, acls, "User:mirror") == right
    assert with_denials(lacking, [other], "User:mirror") == lacking
    unseen, hides = replace(lacking, operation="DESCRIBE"), replace(deny, operation="DESCRIBE")
    hidden = with_denials(unseen, [acl("ALLOW"), deny, hides], "User:mirror")
    assert (hidden.denied_by, hidden.is_allowed) == ((hides,), True), "to write is to describe"
    assert with_denials(lacking, [everybody, other], "").denied_by == (everybody,)
    unsure = with_denials(lacking, acls, "")  # a certificate's, or a ticket's
    assert (unsure.denied_by, unsure.is_allowed) == ((), False), "another's must not be removed"
    assert str(other) in unsure.doubt
    assert len(together([unsure, lacking])) == 2


def test_lists_that_select_nothing_are_not_well() -> None:
    plan = replace(plan_of(), is_empty=True)

    assert only(judge_plan("topics of A->B", plan, plan)).verdict == "warning"


def test_what_is_unknown_says_so_and_why() -> None:
    found = unknown("x", "no answer")

    assert (found.verdict, found.found) == ("unknown", "unknown: no answer")
