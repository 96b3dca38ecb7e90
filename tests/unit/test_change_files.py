"""Changes as objects: written, read, half-written, collected."""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from replication.config.changes import Change, Paused, text_of_changes
from replication.errors import StateError
from replication.foreign_json import to_json
from replication.model import Flow
from replication.state.change_files import Applied, ChangeFiles
from replication.state.files import LocalFiles
from replication.state.folder import StateFolder

FLOW, LONG = Flow("A", "B"), Flow("A", "B-to-C")


def files(folder: Path, flow: Flow = FLOW) -> ChangeFiles:
    return ChangeFiles(LocalFiles(), folder.as_uri(), flow)


def pause(*items: str, flow: Flow = FLOW) -> Change:
    return Change(flow, "pause", items, by="ann@desk", at="2026-11-26T19:00:00.000Z")


def names(folder: Path, kind: str = "") -> list[str]:
    return sorted(file.name for file in (folder / "_control").glob(f"{kind}*"))


def test_a_reader_finds_what_was_written_in_the_order_of_the_numbers(tmp_path: Path) -> None:
    first = files(tmp_path).write(pause("orders"))
    second = files(tmp_path).write(pause("clicks"))

    assert (first.number, second.number) == (1, 2)
    assert files(tmp_path).read().changes == (first, second)
    assert files(tmp_path, Flow("B", "A")).read().changes == ()


def test_flows_whose_names_begin_alike_keep_their_changes_apart(tmp_path: Path) -> None:
    files(tmp_path, LONG).write(pause(flow=LONG))
    files(tmp_path, Flow("A-to-B", "C")).write(pause(flow=Flow("A-to-B", "C")))

    assert len(files(tmp_path, LONG).read().changes) == 1
    assert files(tmp_path).read().changes == ()


def test_what_one_flow_collects_is_never_anothers(tmp_path: Path) -> None:
    """Neither where both had one name for their files, nor where an object is under a wrong one."""
    other = Flow("A-to-B", "C")
    for flow in (LONG, other):
        for number in range(3):
            files(tmp_path, flow).write(pause(f"t{number}", flow=flow))
    folder = tmp_path / "_control"
    for at, file in enumerate(sorted(folder.glob(f"change-{other.slug}@*"))):
        # of a version before, or moved by hand
        name = (LONG.plain_slug, LONG.slug, other.slug)[at]
        file.rename(folder / f"change-{name}@{file.name.partition('@')[2]}")
    files(tmp_path, FLOW).write(pause("mine"))
    shared = folder / f"base-{LONG.slug}@0000000009-{'a' * 32}"
    in_both = (
        replace(pause("b", flow=flow), number=9, id=letter * 32)
        for flow, letter in ((LONG, "b"), (other, "c"))
    )
    shared.write_text(text_of_changes(in_both))
    before = files(tmp_path, other).read()

    assert files(tmp_path, LONG).collect(3) == 3
    assert files(tmp_path, LONG).collect(1) == 0
    assert files(tmp_path, other).read() == before
    assert len(before.changes) == 2, "what lies under another flow's name is no change of this one"
    assert shared.exists()
    assert len(files(tmp_path).read().changes) == 1


def test_two_that_write_at_once_hear_of_each_other(tmp_path: Path) -> None:
    mine, other = files(tmp_path), files(tmp_path)
    mine.read()
    theirs = other.write(pause("orders"))
    own = mine.write(pause("clicks"))

    assert other.others_of(theirs) == [own]
    assert mine.others_of(own) == []


@pytest.mark.parametrize("content", ["", "{", "\x00", '{"flow": "A->B", "what": "later"}'])
def test_a_half_written_or_unknown_object_counts_as_absent(tmp_path: Path, content: str) -> None:
    known = files(tmp_path).write(pause("orders"))
    path = tmp_path / "_control" / f"change-A-to-B@{2:010d}-{'0' * 32}"
    path.write_text(content)
    reader = files(tmp_path)

    assert reader.read().changes == (known,)
    (unread,) = reader.unread
    assert unread.endswith(path.name)
    path.write_text(json.dumps(to_json(pause("clicks"))))
    reader.unread[unread].retry_at = 0.0
    assert reader.read().paused == Paused(topics=("clicks", "orders"))
    assert reader.unread == {}


def test_a_folder_or_a_pipe_in_the_place_of_a_change_counts_as_absent(tmp_path: Path) -> None:
    (tmp_path / "_control" / f"change-A-to-B@{1:010d}-{'0' * 32}").mkdir(parents=True)
    reader = files(tmp_path)

    assert reader.read().changes == ()
    assert len(reader.unread) == 1


def test_what_cannot_be_listed_raises_and_the_last_fold_stays(tmp_path: Path) -> None:
    reader = files(tmp_path)
    reader.write(pause("orders"))
    before = reader.read()
    (tmp_path / "_control").rename(tmp_path / "elsewhere")
    (tmp_path / "_control").write_text("no folder")

    with pytest.raises(StateError, match="cannot list the changes of A->B"):
        reader.read()
    assert reader.steering == before
    with pytest.raises(StateError, match="cannot list the changes of A->B"):
        reader.write(pause("clicks"))


def test_many_changes_are_collected_and_nothing_is_lost(tmp_path: Path) -> None:
    writer = files(tmp_path)
    for number in range(8):
        writer.write(pause(f"t{number}"))
    before = files(tmp_path).read()

    assert files(tmp_path).collect(9) == 0
    assert files(tmp_path).collect(8) == 8
    assert names(tmp_path, "change") == []
    assert files(tmp_path).read() == before
    assert files(tmp_path).read().changes == before.changes
    for number in range(8, 12):
        files(tmp_path).write(pause(f"t{number}"))
    assert files(tmp_path).collect(4) == 5, "with the base before"
    assert len(names(tmp_path, "base")) == 1
    assert [each.number for each in files(tmp_path).read().changes] == list(range(1, 13))


def test_a_reader_that_listed_before_a_collection_misses_nothing(tmp_path: Path) -> None:
    writer = files(tmp_path)
    for number in range(4):
        writer.write(pause(f"t{number}"))
    reader = files(tmp_path)
    listed = reader.files.find(f"{tmp_path.as_uri()}/_control/")
    files(tmp_path).collect(4)

    reader.take(listed)

    assert reader.unread == {}
    assert len(reader.read().changes) == 4


def test_an_object_that_comes_back_after_its_collection_counts_once(tmp_path: Path) -> None:
    change = files(tmp_path).write(pause("orders"))
    files(tmp_path).collect(1)
    path = f"{tmp_path.as_uri()}/_control/change-A-to-B@{change.name}"
    LocalFiles().create(path, json.dumps(to_json(change)))

    assert files(tmp_path).read().changes == (change,)


def test_changes_that_disappear_are_written_again_by_a_process_that_knows_them(
    tmp_path: Path,
) -> None:
    owner = files(tmp_path)
    for number in range(4):
        files(tmp_path).write(pause(f"t{number}"))
    before = owner.read()
    files(tmp_path).collect(3)  # which nobody has lost
    fifth = files(tmp_path).write(pause("t4"))
    assert owner.read().changes == (*before.changes, fifth)
    assert owner.restore() == 0
    shutil.rmtree(tmp_path / "_control")

    assert owner.take([]).changes == (*before.changes, fifth)
    assert owner.lost == frozenset(), "one listing may have missed a new base"
    owner.take([])
    assert owner.restore() == 5
    assert files(tmp_path).read().changes == (*before.changes, fifth)
    assert (owner.read().changes, owner.restore()) == ((*before.changes, fifth), 0)


def test_no_request_makes_a_state_directory_anew_that_is_gone(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.begin()
    local = LocalFiles(folder.check)
    local.create(f"{tmp_path}/state/_control/stop-A-to-B@any@1")
    (tmp_path / "state").rename(tmp_path / "away")

    with pytest.raises(OSError, match="no longer the folder in which this process began"):
        local.create(f"{tmp_path}/state/_control/stop-A-to-B@any@2")
    assert not (tmp_path / "state").exists()


class Interrupted(LocalFiles):
    """Calls something before the first object is deleted."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = [meanwhile]

    def delete(self, path: str) -> None:
        while self._meanwhile:
            self._meanwhile.pop()()
        super().delete(path)


def test_two_that_collect_at_once_delete_nothing_that_the_other_relies_on(tmp_path: Path) -> None:
    for number in range(4):
        files(tmp_path).write(pause(f"t{number}"))
    slow = ChangeFiles(Interrupted(lambda: files(tmp_path).collect(1)), tmp_path.as_uri(), FLOW)

    slow.collect(1)
    files(tmp_path).collect(1)

    assert len(files(tmp_path).read().changes) == 4


def test_writers_at_once_lose_no_change_while_a_reader_collects(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        own = files(tmp_path)
        for number in range(10):
            own.write(pause(f"t{writer}.{number}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        files(tmp_path).collect(5)
    for thread in threads:
        thread.join()

    assert len(files(tmp_path).read().changes) == 40
    assert files(tmp_path).read() == files(tmp_path).read()


def test_what_is_in_force_is_published_and_what_was_is_deleted(tmp_path: Path) -> None:
    owner = files(tmp_path)
    change = owner.write(pause("orders"))
    assert owner.applied() is None

    for generation in (3, 4):
        owner.publish(
            Applied(change.number, frozenset({change.name}), "host/1", "2026-11-26", generation)
        )

    applied = files(tmp_path).applied()
    assert applied is not None
    assert (change.name in applied.names, applied.generation) == (True, 4)
    assert len(names(tmp_path, "applied")) == 1
