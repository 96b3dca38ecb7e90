"""What the benchmarks make of their figures: medians, spreads, ratios, plots, and the order."""

import json
import os
import re
import threading
from argparse import ArgumentTypeError, Namespace
from array import array
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.__main__ import contenders
from tests.bench.cases import case
from tests.bench.drain import scaled
from tests.bench.executors import cores_each
from tests.bench.gap import contender
from tests.bench.gap import main as gap
from tests.bench.latency import Copies, PollInterval, summary
from tests.bench.load import Load
from tests.bench.matrix import ALL, Cell, chosen, one_thing_at_a_time
from tests.bench.options import parsed
from tests.bench.peers import MM2_JVM, Mirror, MirrorMaker2, PlainCopy, in_turn
from tests.bench.plots import curves, rounds
from tests.bench.program import ratio, spread
from tests.bench.report import ALONE, Result, print_tables
from tests.bench.requests import parsed as requests_of
from tests.bench.scale import sizes
from tests.bench.threads import Activity, Reading, activities, print_activities, readings
from tests.bench.throughput import Throughput
from tests.bench.usage import Usage
from tests.support.waiting import wait_until

LOAD = Load(partitions=8, records=1000, size_bytes=1000)


def result(name: str, number: int, records_per_second: int) -> Result:
    return Result(name, number, Throughput(records_per_second, 1.0, Usage(cpu_seconds=0.5), 7.0))


def test_a_spread_is_the_median_with_the_least_and_the_greatest() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2.0 (1.0 to 3.0)"
    assert spread([1234.56], 2) == "1,234.56"
    assert spread([]) == "-"


def test_a_backlog_is_sent_by_partition_and_each_has_records_of_all_times() -> None:
    sent = list(Load(partitions=3, records=8, size_bytes=10, span_seconds=80).backlog())

    assert [record.partition for record in sent] == [0, 0, 0, 1, 1, 1, 2, 2]
    keys = [int.from_bytes(record.key or b"", "big") for record in sent]
    assert keys == [0, 3, 6, 1, 4, 7, 2, 5]
    by_time = sorted(sent, key=lambda record: record.timestamp_ms)
    assert [record.partition for record in by_time] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_a_ratio_is_that_of_the_medians() -> None:
    assert ratio([3.0, 1.0, 2.0], [4.0]) == "0.50"
    assert ratio([1.0], []) == "-"
    assert ratio([1.0], [0.0]) == "-"


def test_every_second_round_runs_in_the_opposite_order() -> None:
    ours = Mirror(mode="realtime", settings={})
    theirs = MirrorMaker2(jars=Path("jars"), settings={})

    assert in_turn([ours, theirs], 1) == [ours, theirs]
    assert in_turn([ours, theirs], 2) == [theirs, ours]


def test_a_table_has_a_column_for_each_contender_and_one_for_the_ratio() -> None:
    console = Console(width=140, record=True, file=StringIO())
    results = [result("mm2", 1, 50_000), result("realtime", 1, 100_000)]
    results += [result("realtime", 2, 90_000), result("mm2", 2, 70_000)]

    print_tables(console, results, LOAD, [1000], 60)

    text = console.export_text()
    row = next(line for line in text.splitlines() if "MB/s" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["MB/s", "95.0 (90.0 to 100.0)", "60.0 (50.0 to 70.0)", "1.58"]
    assert "median of 2 rounds (least to greatest)" in text
    assert "Latency" not in text


def test_the_latency_without_a_contender_is_shown_and_compared_with_nothing() -> None:
    console = Console(width=140, record=True, file=StringIO())
    copies = Copies()
    copies.produced_ns.extend([0, 1_000_000])
    copies.seen_ns.extend([2_000_000, 3_000_000])
    pace = PollInterval(partitions=1, size_bytes=16, records_per_second=1000, seconds=1)
    latency = summary(copies, pace, Usage(), 1.0)
    results = [Result(name, 1, latencies=(latency,)) for name in (ALONE, "realtime", "mm2")]

    print_tables(console, results, LOAD, [1000], 60)

    row = next(line for line in console.export_text().splitlines() if "p50" in line)
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["p50 ms", "2.00", "2.00", "2.00", "1.00"]


def test_a_failure_is_printed_below_the_tables() -> None:
    console = Console(width=140, record=True, file=StringIO())

    print_tables(console, [Result("mm2", 3, failure="ended with exit code 1")], LOAD, [], 60)

    assert console.export_text() == "mm2, round 3: ended with exit code 1\n"


def test_a_latency_lies_between_producing_and_seeing() -> None:
    copies = Copies(array("q", [1_000_000, 2_000_000]), array("q", [6_000_000, 5_000_000]))
    pace = PollInterval(partitions=1, size_bytes=16, records_per_second=1.0, seconds=3)

    found = summary(copies, pace, Usage(), 3.0)

    assert copies.ascending_ms() == [3.0, 5.0]
    assert copies[1:].ascending_ms() == [3.0]
    assert (found.p50_ms, found.max_ms, found.records, found.lost) == (5.0, 5.0, 2, 1)
    assert found.produced_per_second == 1000.0
    assert found.curve == ((0.01, 3.0), (0.1, 3.0), (0.25, 3.0), (0.5, 5.0))


def test_plots_show_each_round_and_the_median_latency_of_each_share() -> None:
    run = {"records": 2_000_000, "seconds": 2.0, "used": {"cpu_seconds": 30.0}}

    def latencies(ms: float) -> list[dict[str, object]]:
        return [{"rate": 10, "curve": [[0.5, ms], [0.9, 2 * ms]]}]

    document = [
        {"name": "mm2", "throughput": run, "latencies": latencies(1.0)},
        {"name": "mm2", "throughput": None, "latencies": latencies(3.0)},
    ]
    results = json.loads(json.dumps(document))

    assert rounds(results, 100) == {
        "MB/s": {"mm2": [100.0]},
        "CPU µs per record": {"mm2": [15.0]},
    }
    assert curves(results) == {10: {"mm2": [(0.5, 2.0), (0.9, 4.0)]}}


def test_rates_are_numbers_with_commas(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(["--rates", "10,1000"], "").rates == [10, 1000]
    assert parsed([], "").rates == [1000]
    with pytest.raises(SystemExit):
        parsed(["--rates", "10,0"], "")
    assert "--rates" in capsys.readouterr().err


def test_the_matrix_varies_one_thing_at_a_time() -> None:
    names = [" ".join(cell.words) for cell in one_thing_at_a_time()]

    assert names == [
        "1KB none plain 8p",
        "100B none plain 8p",
        "10KB none plain 8p",
        "1KB lz4 plain 8p",
        "1KB zstd plain 8p",
        "1KB none headers 8p",
        "1KB none plain 1p",
        "1KB none plain 64p",
    ]


def test_the_matrix_takes_words_that_name_its_cells() -> None:
    assert len(ALL) == 54
    assert [" ".join(cell.words) for cell in chosen(["100B", "zstd", "headers"])] == [
        "100B zstd headers 1p",
        "100B zstd headers 8p",
        "100B zstd headers 64p",
    ]
    with pytest.raises(ArgumentTypeError, match="no kind of records is 2KB; words: 100B, 1KB"):
        chosen(["2KB"])


def test_a_cell_is_limited_in_records_and_in_bytes() -> None:
    assert Cell("100B").load(1_000_000, 500).records == 1_000_000
    assert Cell("10KB").load(1_000_000, 500).records == 48_828


def test_sizes_of_several_questions_are_measured_once() -> None:
    asked = Namespace(partitions=[1, 10, 100], topics=[10], flows=[1, 5])

    assert [(size.flows, size.topics, size.each, size.partitions) for size in sizes(asked)] == [
        (1, 1, 1, 1),
        (1, 1, 10, 10),
        (1, 10, 10, 100),
        (1, 10, 1, 10),
        (5, 10, 1, 50),
    ]


def test_requests_are_summed_over_their_versions() -> None:
    bean = "kafka.network:name=RequestsPerSec,request={},type=RequestMetrics,version={}:Count={}"
    lines = [bean.format("Metadata", 12, 3), bean.format("Metadata", 13, 4), "time=1"]

    assert requests_of("\n".join([*lines, bean.format("Fetch", 17, 9)])) == {
        "Metadata": 7,
        "Fetch": 9,
    }


def test_what_is_measured_in_minutes_is_scaled_to_the_hour() -> None:
    assert scaled(240.0, wall_seconds=3600.0, cpu_seconds=24.0) == 360.0


def test_executors_share_the_slots_of_the_flow() -> None:
    assert [cores_each(10, executors) for executors in (1, 2, 3)] == [10, 5, 4]


def test_a_case_has_settings_of_the_mirror_of_spark_and_of_its_jvm() -> None:
    text = "microbatch producer.linger.ms=1 spark.locality.wait=0 -XX:+UseParallelGC -Xmn1g"
    found = case(text).contender(2, "realtime")
    assert found == Mirror(
        mode="microbatch",
        settings={"producer.linger.ms": "1"},
        spark=(
            *("--conf", "spark.locality.wait=0"),
            *("--driver-java-options", "-XX:+UseParallelGC -Xmn1g"),
        ),
        label="case2",
    )


def test_a_case_may_be_mirror_maker_2() -> None:
    found = case("mm2 tasks.max=8").contender(1, "realtime")
    assert (found.name, found.settings) == ("case1", {"tasks.max": "8"})
    assert isinstance(found, MirrorMaker2)
    assert found.jvm == MM2_JVM
    other = case("mm2 -XX:+UseParallelGC").contender(1, "realtime")
    assert isinstance(other, MirrorMaker2)
    assert other.jvm == ("-XX:+UseParallelGC",)


def test_a_case_may_be_kafka_s_clients_alone() -> None:
    found = case("clients threads=8 producer.linger.ms=0").contender(3, "realtime")
    assert isinstance(found, PlainCopy)
    assert found.settings == {"threads": "8", "producer.linger.ms": "0"}


@pytest.mark.parametrize("text", ["drain linger", "mm2 spark.a=b", "clients spark.a=b"])
def test_a_case_of_other_words_is_rejected(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        case(text)


def test_a_gap_may_be_that_of_kafka_s_clients_alone() -> None:
    options = Namespace(clients=True, set=["threads=4"])
    clients = contender(options)
    assert isinstance(clients, PlainCopy)
    assert clients.settings == {"producer.linger.ms": "0", "threads": "4"}


def test_clients_alone_have_no_other_topics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gap", "--clients"])
    with pytest.raises(SystemExit):
        gap()
    assert "needs --alone" in capsys.readouterr().err


def test_threads_of_one_purpose_are_counted_together() -> None:
    before = {Path("1"): Reading("task #", 1.0, 10), Path("4"): Reading("ended", 9.0, 9)}
    after = {Path("1"): Reading("task #", 1.5, 30), Path("2"): Reading("task #", 0.5, 40)}
    after |= {Path("3"): Reading("new", 0.1, 1)}

    found = activities(before, after, 2.0)

    assert found == [Activity("task #", 2, 0.5, 30.0), Activity("new", 1, 0.05, 0.5)]


def test_a_thread_wakes_as_often_as_it_has_waited() -> None:
    waits, over = 50, threading.Event()
    has_waited = threading.Event()

    def wait() -> None:
        for _ in range(waits):
            over.wait(0.001)
        has_waited.set()
        over.wait()

    before = readings(os.getpid())
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(has_waited.is_set, 30)
    after = readings(os.getpid())
    over.set()
    thread.join()

    new = [reading for at, reading in after.items() if at.name == str(thread.native_id)]
    assert [at for at in before if at.name == str(thread.native_id)] == []
    assert [reading.wakes >= waits and reading.cpu_seconds > 0 for reading in new] == [True]


def test_a_table_of_threads_has_percents_of_a_core() -> None:
    console = Console(width=80, record=True, file=StringIO())

    print_activities(console, "mirror", [Activity("task #", 1000, 0.0304, 200.9)])

    assert re.findall(r"task #.*?(1,000).*?(3\.04).*?(200\.9)", console.export_text())


def test_a_case_has_batches_of_the_length_that_is_asked_for() -> None:
    arguments = ["--batch-seconds", "30", "--case", "producer.linger.ms=1", "--case", "mm2"]
    arguments += ["--case", "replication.realtime.batch.seconds=60"]

    found = contenders(parsed(arguments, ""))

    key = "replication.realtime.batch.seconds"
    assert [one.settings.get(key) for one in found] == ["30", None, "30", None, "60"]
