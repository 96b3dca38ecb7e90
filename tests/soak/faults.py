"""The faults of a soak. Which comes next, and how hard it hits, depends on the seed alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import get_args

from tests.soak.load import TRANSACTIONAL, SoakTopic
from tests.soak.scene import MOST_PARTITIONS, Scene
from tests.soak.transactions import Ending, HeldTransaction
from tests.support.process_tree import paused

LONGEST_DELAY_SECONDS = 2.0
LONGEST_OUTAGE_SECONDS = 25.0
BROKER_PAUSE_SECONDS = (5.0, 200.0)
DRIVER_PAUSE_SECONDS = (5.0, 60.0)
EXECUTOR_PAUSE_SECONDS = (5.0, 8.0)
"""Shorter than an executor's lease. One that is paused for longer is replaced; when it goes on, its
producers may write what they hold before it ends, which no client can prevent."""

LONGEST_TRANSACTION_SECONDS = 8.0
NEW_TOPIC_PARTITIONS = 2
NEW_TOPIC_PER_SECOND = 20.0


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that is over, apart from its consequences.

    Args:
        text: What was done.
        since: The monotonic time from which the pause counts: the fault's, or that of the repair.
        topics: Those that must be copied again; None for all without gaps.
    """

    text: str
    since: float
    topics: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Args:
        name: Of the kind, in the table.
        weight: How often it is chosen beside the others.
        inflict: Does it.
        adds: The partitions that it adds.
        hits_driver: Whether it ends or pauses the active job.
    """

    name: str
    weight: int
    inflict: Callable[[Scene, Random], Done]
    adds: int = 0
    hits_driver: bool = False


def choose(random: Random, partitions: int, *, is_driver_spared: bool = False) -> Kind:
    """The next kind of fault, for topics of so many *partitions* in all."""
    possible = [
        kind
        for kind in KINDS
        if (not kind.adds or partitions + kind.adds <= MOST_PARTITIONS)
        and not (is_driver_spared and kind.hits_driver)
    ]
    return random.choices(possible, [kind.weight for kind in possible])[0]


def _kill_process(scene: Scene, random: Random) -> Done:
    """Kills the active job while it copies; another one must start a query."""
    job = scene.active_in_mid_copy(_delay(random))
    job.kill()
    since = time.monotonic()
    scene.until(lambda: scene.mirrors.active() not in {None, job}, "a takeover")
    return Done(f"{job.log.stem} killed by SIGKILL", since)


def _stop_process(scene: Scene, random: Random) -> Done:
    """Ends the active job as an operator does; another one must start a query."""
    job = scene.active_in_mid_copy(_delay(random))
    since = time.monotonic()
    job.stop()
    scene.until(lambda: scene.mirrors.active() not in {None, job}, "a takeover")
    return Done(f"{job.log.stem} stopped by SIGTERM", since)


def _kill_executors(scene: Scene, random: Random) -> Done:
    """Kills the executors of one worker while they copy."""
    victim = random.random()
    scene.active_in_mid_copy(_delay(random))
    scene.until(lambda: _busy_workers(scene), "an executor")
    workers = _busy_workers(scene)
    number = workers[int(victim * len(workers))]
    scene.spark.workers[number].kill_executors()
    return Done(f"the executors of worker {number + 1} killed by SIGKILL", time.monotonic())


def _kill_worker(scene: Scene, random: Random) -> Done:
    """Kills a worker, alone or with its executors; another one is started."""
    cluster = scene.spark
    number, with_executors = random.randrange(2), random.random() < 0.5
    scene.active_in_mid_copy(_delay(random))
    worker = cluster.workers.pop(number)
    since = time.monotonic()
    (worker.kill_all if with_executors else worker.kill)()
    cluster.add_worker()
    what = "with its executors" if with_executors else "alone"
    return Done(f"worker {number + 1} killed by SIGKILL, {what}; another one started", since)


def _stop_broker(scene: Scene, random: Random) -> Done:
    """Ends a broker, cleanly or not, and starts it again; the active job may be killed between."""
    broker = random.choice(scene.clusters)
    is_clean, seconds = random.random() < 0.5, random.uniform(0.5, LONGEST_OUTAGE_SECONDS)
    kills_job = random.random() < 0.25 and not scene.is_driver_spared
    scene.active_in_mid_copy(_delay(random))
    (broker.stop if is_clean else broker.kill)()
    job = scene.mirrors.active() if kills_job else None
    scene.pass_time(seconds / 2)
    if job:
        job.kill()
    scene.pass_time(seconds / 2)
    broker.start()
    since = time.monotonic()
    side = "source" if broker is scene.clusters[0] else "target"
    how = "stopped" if is_clean else "killed by SIGKILL"
    text = f"the {side}'s broker {how} for {seconds:.1f} s"
    if job:
        scene.until(lambda: scene.mirrors.active() not in {None, job}, "a takeover")
        text += f"; {job.log.stem} killed meanwhile"
    return Done(text, since)


def _pause_broker(scene: Scene, random: Random) -> Done:
    """Pauses a broker: its connections stay open, and nothing is answered."""
    broker = random.choice(scene.clusters)
    seconds = random.uniform(*BROKER_PAUSE_SECONDS)
    scene.active_in_mid_copy(_delay(random))
    with paused([broker.pid] if broker.pid else []):
        scene.pass_time(seconds)
    side = "source" if broker is scene.clusters[0] else "target"
    return Done(f"the {side}'s broker paused for {seconds:.1f} s", time.monotonic())


def _pause_process(scene: Scene, random: Random) -> Done:
    """Pauses the active job, its driver included; another one may take over meanwhile."""
    seconds = random.uniform(*DRIVER_PAUSE_SECONDS)
    job = scene.active_in_mid_copy(_delay(random))
    with paused(job.family()):
        scene.pass_time(seconds)
    return Done(f"{job.log.stem} paused for {seconds:.1f} s", time.monotonic())


def _pause_executors(scene: Scene, random: Random) -> Done:
    """Pauses the executors of one worker while they copy."""
    victim, seconds = random.random(), random.uniform(*EXECUTOR_PAUSE_SECONDS)
    scene.active_in_mid_copy(_delay(random))
    scene.until(lambda: _busy_workers(scene), "an executor")
    workers = _busy_workers(scene)
    number = workers[int(victim * len(workers))]
    with paused(scene.spark.workers[number].executors()):
        scene.pass_time(seconds)
    text = f"the executors of worker {number + 1} paused for {seconds:.1f} s"
    return Done(text, time.monotonic())


def _create_topic(scene: Scene, _: Random) -> Done:
    names = (f"soak-new-{number}" for number in count(1))
    name = next(name for name in names if name not in scene.load.topics)
    scene.load.add(SoakTopic(name, NEW_TOPIC_PARTITIONS, NEW_TOPIC_PER_SECOND))
    text = f"topic {name} created with {NEW_TOPIC_PARTITIONS} partitions"
    return Done(text, time.monotonic())


def _add_partition(scene: Scene, random: Random) -> Done:
    name = random.choice([topic.name for topic in scene.load.topics.values() if not topic.has_gaps])
    scene.load.grow(name)
    partitions = scene.load.topics[name].partitions
    return Done(f"topic {name} grown to {partitions} partitions", time.monotonic())


def _hold_transaction(scene: Scene, random: Random) -> Done:
    """Keeps a transaction open, so that nothing after it may cross, and ends it."""
    ending = random.choice(ENDINGS)
    seconds = random.uniform(0.5, LONGEST_TRANSACTION_SECONDS)
    topic = scene.load.topics[TRANSACTIONAL]
    transaction = HeldTransaction(scene.clusters[0].bootstrap, topic.name, topic.partitions)
    scene.pass_time(seconds)
    ending = transaction.end(ending)
    text = f"a transaction open for {seconds:.1f} s, then {ending}"
    return Done(text, time.monotonic(), [TRANSACTIONAL])


def _busy_workers(scene: Scene) -> list[int]:
    """The indices of the workers that have executors."""
    return [number for number, worker in enumerate(scene.spark.workers) if worker.executors()]


def _delay(random: Random) -> float:
    return random.uniform(0, LONGEST_DELAY_SECONDS)


ENDINGS: tuple[Ending, ...] = get_args(Ending)
KINDS = (
    Kind("process killed", 3, _kill_process, hits_driver=True),
    Kind("process stopped", 1, _stop_process, hits_driver=True),
    Kind("executors killed", 3, _kill_executors),
    Kind("worker killed", 2, _kill_worker),
    Kind("broker ended", 3, _stop_broker),
    Kind("broker paused", 3, _pause_broker),
    Kind("process paused", 2, _pause_process, hits_driver=True),
    Kind("executors paused", 1, _pause_executors),
    Kind("topic created", 1, _create_topic, NEW_TOPIC_PARTITIONS),
    Kind("partition added", 1, _add_partition, 1),
    Kind("transaction held", 2, _hold_transaction),
)
