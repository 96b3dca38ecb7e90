"""The codecs of a flow's copies, where they are to be those of the source's batches.

They are looked for whenever topics are: at the start of a generation and at each refresh. A topic
whose codec has changed makes a new plan, hence a new generation.
"""

from replication.errors import ClusterError
from replication.flows.context import FlowContext
from replication.kafka.batches import newest_codecs
from replication.spark.kafka_options import named
from replication.topics.codecs import codecs_of_copies
from replication.topics.topic_plan import TopicPlan

PRODUCERS_DEFAULT = "none"
"""Kafka's ``compression.type``."""


class SourceCodecs:
    """Finds the codecs, and remembers them for looks that fail."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        self._known: dict[str, str] = {}

    def added_to(self, plan: TopicPlan) -> TopicPlan:
        """Returns *plan* with the codecs of its topics, if the flow keeps them."""
        context, config = self._context, self._context.config
        if config.compression == "producer" or not plan.topics:
            return plan
        newest = {}
        try:
            consumer = named(config.source.consumer, config.flow)
            newest = newest_codecs(context.jvm, consumer, plan.topics)
        except ClusterError as error:
            context.log.warning("codecs_unknown", text=error)
        otherwise = config.target.producer.get("compression.type", PRODUCERS_DEFAULT)
        found = codecs_of_copies(plan.topics, newest, self._known, otherwise)
        for topic, codec in found.items():
            if self._known.get(topic) != codec:
                context.log.info("codec_found", topic=topic, codec=codec)
        self._known |= found
        return plan.with_codecs(found)
