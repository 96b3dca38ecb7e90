"""delta-rs on S3 and HDFS: races, kills, damage, requests as objects. No Spark is started."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import CommitFailedError

from replication.config.state_access import StateAccess
from replication.errors import SetupError, StateError
from replication.model import Flow
from replication.state.delta import DeltaReader, LocalTable, delta_table
from replication.state.engine_mark import claim_engine
from replication.state.files import MOST_BYTES, ObjectFiles
from replication.state.offset_table import compacted
from replication.state.schemas import SCHEMAS, DamagedTableError, table_errors
from replication.state.storage import Storage, storage_for
from replication.state.stored_table import Query, Replacement
from tests.support.damage import DAMAGES
from tests.support.hadoop import hadoop_clients, mini_hadoop
from tests.support.s3 import BUCKET, forgetful, lossy, s3_server

pytestmark = pytest.mark.cluster

FLOW, OTHER = Flow("A", "B"), Flow("B", "A")
ROUNDS = 30  # of a race
WRITER = """
import json, sys
from replication.config.state_access import StateAccess
from replication.state.delta import delta_table
from replication.state.storage import storage_for
from replication.state.schemas import SCHEMAS
state_dir, hadoop, first, count = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:])
table = delta_table(storage_for(StateAccess(state_dir, hadoop, "delta-rs")), "leases")
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + count):
    table.append([{"flow": "A->B", "epoch": number}], SCHEMAS["leases"])
    print(number, flush=True)
"""


@pytest.fixture(scope="module", params=["s3", pytest.param("hdfs", marks=pytest.mark.soak)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StateAccess]:
    """The root of a storage, reached as a file of the mirror's or HADOOP_CONF_DIR says."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "s3":
        with s3_server(folder) as settings:
            yield StateAccess(f"s3a://{BUCKET}", settings)
        return
    with mini_hadoop(folder) as hadoop, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", hadoop.environment["HADOOP_CONF_DIR"])
        yield StateAccess(hadoop.uri, engine="delta-rs")


@pytest.fixture
def storage(place: StateAccess, tmp_path: Path) -> Storage:
    """A state directory of the test's own there."""
    found = storage_for(replace(place, state_dir=f"{place.state_dir}/{tmp_path.name}"))
    assert found.engine == "delta-rs"
    return found


def writer(storage: Storage, first: int, count: int) -> "subprocess.Popen[str]":
    """A process that waits for a line, appends rows, and prints each that was acknowledged."""
    access = storage.access
    arguments = [access.state_dir, json.dumps(dict(access.hadoop)), str(first), str(count)]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def epochs(storage: Storage) -> list[int]:
    rows = DeltaReader(storage.access.state_dir, storage).rows("leases", FLOW)
    return sorted(row["epoch"] for row in rows)


def test_of_processes_that_create_a_table_and_append_at_once_no_row_is_lost(
    storage: Storage,
) -> None:
    writers = [writer(storage, 100 * number, 8) for number in range(3)]
    for process in writers:
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
    told = [process.communicate(timeout=120)[0] for process in writers]

    assert [process.returncode for process in writers] == [0, 0, 0]
    acknowledged = sorted(int(line) for text in told for line in text.split())
    assert epochs(storage) == acknowledged
    assert len(acknowledged) == 24


def test_a_writer_that_is_killed_leaves_a_table_with_all_that_it_was_told_of(
    storage: Storage,
) -> None:
    dice = random.Random(7)  # noqa: S311 - test data
    acknowledged = list[int]()
    for start in range(3):
        with writer(storage, 100 * start, 100) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            print(file=process.stdin, flush=True)
            for _ in range(dice.randrange(1, 4)):
                acknowledged.append(int(process.stdout.readline()))
            timer = threading.Timer(dice.random() * 0.2, process.kill)  # within the next commit
            timer.start()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]

    table = delta_table(storage, "leases")
    table.merge_files()
    table.vacuum()
    table.append([{"flow": str(FLOW), "epoch": 999}], SCHEMAS["leases"])

    found = epochs(storage)
    assert set(found) >= {*acknowledged, 999}
    assert len(found) == len(set(found)) <= len(acknowledged) + 3 + 1, "one in flight at each kill"


def test_the_rows_of_a_commit_whose_answer_is_lost_count_once(
    place: StateAccess, storage: Storage
) -> None:
    """delta-rs makes it again, and adds the same file, which the table then has once."""
    if not place.state_dir.startswith("s3a"):
        pytest.skip("asks a server between the mirror and S3")
    with lossy(place.hadoop["fs.s3a.endpoint"]) as (url, lost):
        behind = {**place.hadoop, "fs.s3a.endpoint": url}
        access = replace(storage.access, hadoop=behind)
        # in a process of its own: delta-rs holds Python's lock while it reads
        process = writer(storage_for(access), 0, 4)
        told, _ = process.communicate("begin\n", timeout=240)

    assert told.split() == ["0", "1", "2", "3"]
    assert epochs(storage) == [0, 1, 2, 3]
    assert lost


def run(number: int) -> dict[str, Any]:
    offsets = {"src_from": number, "src_until": number + 1, "tgt_from": number, "count": 1}
    batches = {"generation": 1, "first_batch": 1, "last_batch": 1}
    return {"flow": str(FLOW), "topic": "t", "partition": 0, "topic_id": "id", **offsets, **batches}


def test_a_map_is_compacted_while_others_append_and_loses_nothing(storage: Storage) -> None:
    table, schema = delta_table(storage, "offset_runs"), SCHEMAS["offset_runs"]
    for number in range(4):
        table.append([run(number)], schema)

    def compact(between: dict[str, Any]) -> int:
        def parts(query: Query) -> Iterator[Replacement]:
            yield from compacted(query, FLOW)
            delta_table(storage, "offset_runs").append([between], schema)

        return table.rewrite(f"flow = '{FLOW}'", schema, parts)

    assert compact({**run(0), "flow": str(OTHER)}) == 1
    with pytest.raises(CommitFailedError):  # a row of the flow that the compaction has not read
        compact(run(4))

    offsets = DeltaReader(storage.access.state_dir, storage).offsets
    assert [offsets(flow).progress().rows for flow in (FLOW, OTHER)] == [2, 1]


@pytest.mark.parametrize(
    "damage",
    [
        *("data_gone", "data_cut", "commit_cut", "commit_of_zeros", "first_commit_gone"),
        *("commit_missing", "checkpoint_missing", "checkpoint_cut"),
    ],
)
def test_damage_is_told_from_a_storage_that_does_not_answer(
    storage: Storage, tmp_path: Path, damage: str
) -> None:
    for _ in range(3):
        LocalTable(tmp_path / "events").append([{"flow": str(FLOW)}], SCHEMAS["events"])
    DAMAGES[damage](tmp_path / "events")
    upload(storage, tmp_path)

    with pytest.raises(DamagedTableError, match="move this folder away"):
        DeltaReader(storage.access.state_dir, storage).rows("events", FLOW)


def upload(storage: Storage, folder: Path) -> None:
    """Copies *folder* to the state directory of *storage*."""
    if not storage.has_objects:
        with hadoop_clients() as clients:
            clients.put(folder, storage.access.state_dir)
        return
    files = ObjectFiles(storage)
    for file in (path for path in folder.rglob("*") if path.is_file()):
        key = f"{storage.access.state_dir}/{file.relative_to(folder)}"
        files._store.put(files._key(key), file.read_bytes())  # noqa: SLF001 - bytes, not text


def test_a_storage_that_does_not_answer_is_no_damage(storage: Storage) -> None:
    scheme = storage.root.partition(":")[0]
    hadoop = {**storage.access.hadoop, "fs.s3a.endpoint": "http://127.0.0.1:1"}
    gone = f"{scheme}://{'127.0.0.1:1' if scheme == 'hdfs' else 'state'}/state"
    silent = storage_for(StateAccess(gone, hadoop if scheme == "s3" else {}, "delta-rs"))

    for attempt in (
        lambda: DeltaReader(gone, silent).rows("events", FLOW),
        lambda: append(silent),
    ):
        with pytest.raises(StateError) as raised:
            attempt()
        assert not isinstance(raised.value, DamagedTableError)
        assert ("write state.engine: spark" in str(raised.value)) == (scheme == "s3")


def append(storage: Storage) -> None:
    with table_errors("append to", "events", storage.uri("events")):
        delta_table(storage, "events").append([{"flow": str(FLOW)}], SCHEMAS["events"])


@pytest.fixture
def files(storage: Storage) -> ObjectFiles:
    if not storage.has_objects:
        pytest.skip("requests on HDFS go through Hadoop's client")
    return ObjectFiles(storage)


def test_requests_are_objects(storage: Storage, files: ObjectFiles) -> None:
    control = f"{storage.access.state_dir}/_control"
    path = f"{control}/stop-A-to-B@anyone@1 \u00e4"
    assert (files.find(f"{control}/stop-"), files.read(path), files.exists(path)) == ([], "", False)

    files.create(path, '{"by": "\u00e4"}')

    assert files.find(f"{control}/stop-A") == [path]
    assert files.find(f"{control}/accept-") == []
    assert (files.read(path), files.exists(path), files.exists(control)) == (
        '{"by": "\u00e4"}',
        True,
        True,
    )
    files.rename(path, f"{control}/ended-1@0")
    assert files.find(f"{control}/") == [f"{control}/ended-1@0"]
    files.delete(path)
    files.delete(f"{control}/ended-1@0")
    assert files.find(f"{control}/") == []
    files.create(path, "x" * (MOST_BYTES + 1))
    with pytest.raises(ValueError, match="longer than"):
        files.read(path)


def test_a_table_is_renamed_object_by_object(storage: Storage, files: ObjectFiles) -> None:
    append(storage)
    old = f"{storage.access.state_dir}/events"

    files.rename(old, f"{old}.damaged-1")

    assert files.find(old) == [f"{old}.damaged-1"]
    assert not delta_table(storage, "events").exists()
    assert delta_table(storage, "events.damaged-1").exists()


def test_a_server_that_does_not_answer_is_an_error_of_the_system(storage: Storage) -> None:
    if not storage.has_objects:
        pytest.skip("requests on HDFS go through Hadoop's client")
    hadoop = {**storage.access.hadoop, "fs.s3a.endpoint": "http://127.0.0.1:1"}
    files = ObjectFiles(storage_for(StateAccess(storage.access.state_dir, hadoop)))

    for attempt in (partial(files.read, "x"), partial(files.find, "x"), partial(files.create, "x")):
        with pytest.raises(OSError, match="error sending request"):
            attempt()


def test_one_engine_writes_a_state_directory(storage: Storage, files: ObjectFiles) -> None:
    access = storage.access
    by_spark = storage_for(StateAccess(access.state_dir, access.hadoop, "spark"))
    claim_engine(files, storage)
    claim_engine(files, storage)

    with pytest.raises(SetupError, match=r"by delta-rs, as .*/_control/engine-delta-rs"):
        claim_engine(files, by_spark)

    files.delete(f"{access.state_dir}/_control/engine-delta-rs")
    claim_engine(files, by_spark)
    with pytest.raises(SetupError, match=r"Write state\.engine: spark"):
        claim_engine(files, storage)


def test_a_server_that_knows_no_condition_is_refused(storage: Storage, files: ObjectFiles) -> None:
    claim_engine(files, storage)
    hadoop = dict(storage.access.hadoop)
    with forgetful(hadoop["fs.s3a.endpoint"]) as url:
        access = StateAccess(storage.access.state_dir, {**hadoop, "fs.s3a.endpoint": url})
        before = storage_for(access)
        with pytest.raises(SetupError, match="does not know conditional puts"):
            claim_engine(ObjectFiles(before), before)


def test_of_two_engines_that_begin_at_once_at_most_one_goes_on(
    storage: Storage, files: ObjectFiles
) -> None:
    """A mark that one process takes back must not be what another one relies on."""
    access = storage.access
    by_spark = storage_for(StateAccess(access.state_dir, access.hadoop, "spark"))
    for _ in range(ROUNDS):
        assert len({one.engine for one in begun_at_once(files, [storage, by_spark] * 8)}) <= 1
        for mark in files.find(f"{access.state_dir}/_control/engine-"):
            files.delete(mark)


def begun_at_once(files: ObjectFiles, storages: Sequence[Storage]) -> list[Storage]:
    """Those of *storages* that may go on; some begin while others are in the middle of it."""
    inside = list[Storage]()

    def begin(one: Storage) -> None:
        with suppress(SetupError):
            claim_engine(files, one)
            inside.append(one)

    with ThreadPoolExecutor(5) as pool:
        for begun in [pool.submit(begin, one) for one in storages]:
            begun.result()
    return inside
