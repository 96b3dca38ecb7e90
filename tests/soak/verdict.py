"""The judgement after a soak: both sides, the offset map, and what the tables tell."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from replication.config.state_access import StateAccess
from replication.demo.compare import compare
from replication.model import TopicPartition
from replication.offsets.map import OffsetMap
from replication.state.figures_table import stored_figures
from replication.state.readers import open_reader
from replication.state.table_reader import StateReader
from tests.soak.scene import Scene
from tests.support.commands import QUICK_START
from tests.support.local import SCRIPT
from tests.support.mirror_files import FLOW
from tests.support.offset_maps import wrong_entries
from tests.support.running_process import RunningProcess

SHOWN_ENTRIES = 5
DRAIN_SECONDS = 900.0


@dataclass(slots=True)
class Verdict:
    """What was found, over all topics.

    Args:
        records: Committed records on the source.
        lost: Records that the target lacks.
        repeated: Surplus copies on the target.
        foreign: Records of the target that the source does not have.
        disordered: Partitions that hold the same records in another order.
        wrong: Entries of the offset map that do not fit the records.
        dense: Partitions without gaps, where each answer of the map must be exact.
        events: Rows of the table ``events`` by kind.
        problems: Everything that must not be, a line each.
    """

    records: int = 0
    lost: int = 0
    repeated: int = 0
    foreign: int = 0
    disordered: int = 0
    wrong: int = 0
    dense: int = 0
    events: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def judge(scene: Scene, say: Callable[[str], None]) -> Verdict:
    """Ends the load and the mirrors, lets a drain finish the work, and compares everything."""
    verdict = Verdict()
    scene.load.finish()
    scene.mirrors.stop()
    say("the load and the mirrors are stopped; a last drain runs")
    command = [str(SCRIPT), "--config", str(scene.configs[0]), "--mode", "drain", *QUICK_START]
    with RunningProcess("the last drain", command, scene.folder / "last-drain.log") as drain:
        code = drain.wait(DRAIN_SECONDS)
    if code:
        verdict.problems.append(f"the last drain ended with exit code {code}")
    bootstraps = (scene.clusters[0].bootstrap, scene.clusters[1].bootstrap)
    with open_reader(StateAccess(scene.configs[0].with_name("state").as_uri())) as state:
        for topic in scene.load.topics:
            judge_topic(bootstraps, topic, state, verdict)
            say(f"compared: {topic}")
        verdict.events.update(row["kind"] for row in state.rows("events", FLOW))
    verdict.problems.extend(scene.mirrors.bad_ends)
    return verdict


def history_of(scene: Scene) -> list[float]:
    """When each row of the flow in the table ``figures`` begins, in epoch seconds."""
    with open_reader(StateAccess(scene.configs[0].with_name("state").as_uri())) as state:
        return [at for at, _ in stored_figures(state, FLOW, None, 0.0)]


def judge_topic(
    bootstraps: tuple[str, str], topic: str, state: StateReader, verdict: Verdict
) -> None:
    """Compares *topic* with its copy and the offset map with every record; counts in *verdict*.

    Args:
        bootstraps: ``bootstrap.servers`` of source and target.
        topic: On the source.
        state: The state directory of the mirror.
        verdict: Where to count.
    """
    source, target = bootstraps
    remote = {topic: f"{FLOW.source}.{topic}"}
    report = compare(source, target, remote, keep_offsets=True)[topic]
    verdict.records += report.source_records
    verdict.lost += report.missing
    verdict.repeated += report.repeated
    verdict.foreign += report.extra
    for part in report.partitions:
        is_same_set = not (part.missing or part.repeated or part.extra)
        verdict.disordered += is_same_set and part.difference is not None
        verdict.dense += part.sections <= 1
    if not report.is_equal:
        verdict.problems.append(str(report))
    offsets = state.offsets(FLOW)

    def map_of(tp: TopicPartition) -> OffsetMap:
        return OffsetMap(offsets.runs(tp))

    wrong = wrong_entries(report, map_of)
    verdict.wrong += len(wrong)
    verdict.problems.extend(_first(wrong))


def _first(lines: list[str]) -> Iterable[str]:
    yield from lines[:SHOWN_ENTRIES]
    if len(lines) > SHOWN_ENTRIES:
        yield f"... and {len(lines) - SHOWN_ENTRIES} more"
