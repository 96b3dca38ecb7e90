"""What happens to schemas while a flow runs: a thread of its own, so that no registry holds it up.

Registries may be slow: the loop, which looks at the lease, never waits for one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from replication.flows.context import FlowContext
from replication.flows.metadata.schema_rounds import SchemaRounds
from replication.flows.replicate.beside import beside, surviving
from replication.flows.replicate.schema_desk import SchemaDesk, SparkExecutors
from replication.kafka.registry import PATIENCE_SECONDS, Registry
from replication.state.schema_rows import read_schema_ids
from replication.state.spark_reader import reader_of
from replication.topics.topic_plan import TopicPlan
from replication.upkeep.schemas import TranslatedSchemas

LOOK_SECONDS: Final = 0.2
JOIN_SECONDS: Final = 15.0

ROUND_PATIENCE_SECONDS: Final = 300.0
"""How long a question of a round waits for a registry that is asked too often."""


@contextmanager
def kept_schemas(context: FlowContext, stop: threading.Event) -> Iterator[None]:
    """Keeps schemas in step during the block, as ``replication.schemas`` says.

    Args:
        context: Of a flow whose lease is held.
        stop: Of the flow.

    Raises:
        GuardError: The target's registry has other schemas under the ids to be preserved.
        ClusterError: A registry does not answer at the start.
        StateError: The table of ids cannot be read.
    """
    config = context.config
    if config.schemas.mode == "none":
        yield
        return
    with ExitStack() as stack:
        both = _registries(context)
        rounds = None
        for registry in both:
            stack.callback(registry.close)
        if config.translates:
            read_schema_ids(reader_of(context.tables), config.flow, config.schema_ids)
            desk = SchemaDesk(context, TranslatedSchemas(*both), SparkExecutors(context))
            context.refused_schemas.begin(desk.again)
            look, pause = desk.look, LOOK_SECONDS
        else:
            rounds = SchemaRounds(context, *both)
            rounds.begin(stop)
            look, pause = rounds.look, rounds.interval_seconds
        turn = partial(_look, context, look)
        with beside(context, "schemas", turn, (pause, pause), JOIN_SECONDS):
            try:
                yield
                if rounds is not None and config.mode == "drain":
                    rounds.finish(stop)
            finally:
                if rounds is not None:
                    rounds.end()


def _look(context: FlowContext, look: Callable[[], None], _over: threading.Event) -> None:
    with surviving(context, "schemas_failed"):
        look()


def schema_topics(context: FlowContext, plan: TopicPlan) -> str:
    """Returns the task property that names the topics of *plan* whose ids are replaced.

    Each is named with its upstream topic, unless transforms change what is read of that.
    """
    config = context.config
    if not config.translates:
        return ""
    topics = config.with_schema_ids(plan.topics)
    context.refused_schemas.copied.update({remote: topic for topic, remote in topics.items()})
    named = [
        f"{remote}:{'' if topic in plan.transforms else topic}" for topic, remote in topics.items()
    ]
    return ",".join([config.schemas.unframed, *sorted(named), ""]) if topics else ""


def _registries(context: FlowContext) -> tuple[Registry, Registry]:
    flow, schemas = context.config.flow, context.config.schemas
    patience = PATIENCE_SECONDS if context.config.translates else ROUND_PATIENCE_SECONDS
    return (
        Registry(flow.source, schemas.source_registry, patience=patience),
        Registry(flow.target, schemas.target_registry, patience=patience),
    )
