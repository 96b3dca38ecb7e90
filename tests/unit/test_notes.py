"""Notes name the settings that have no effect, and say why."""

from tests.support.settings import ONE_FLOW, parse_settings


def test_notes_name_the_keys_without_effect_and_the_risky_ones() -> None:
    config = parse_settings(
        {
            **ONE_FLOW,
            "tasks.max.enforce": "true",
            "offset.storage.replication.factor": "1",
            "B.exactly.once.source.support": "enabled",
            "A->B.key.converter": "x",
            "A->B.metric.names.formats": "new",
            "A.consumer.group.id": "g",
            "B.security.protocol": "SASL_PLAINTEXT",
            "topic.filter.class": "org.apache.kafka.connect.mirror.DefaultTopicFilter",
            "config.providers": "file",
            "config.providers.file.class": "x.FileConfigProvider",
            "transforms": "",
        }
    )

    assert config.notes == (
        (
            "tasks.max.enforce: has no effect: a key of Kafka Connect; the mirror has no workers "
            "or connectors"
        ),
        (
            "offset.storage.replication.factor: has no effect: a key of Kafka Connect's internal "
            "topics; the mirror stores positions in Delta tables"
        ),
        (
            "B.exactly.once.source.support: has no effect: a flow writes each record once without "
            "transactions; see the guarantees"
        ),
        "A->B.key.converter: has no effect: records are always copied as unchanged bytes",
        "A->B.metric.names.formats: accepted, but not implemented in this version",
        "A.consumer.group.id: has no effect: the mirror reads without a consumer group",
    )


def test_a_note_names_settings_of_an_offset_syncs_topic_that_is_not_written() -> None:
    settings = {"emit.offset-syncs.enabled": "false", "A->B.offset-syncs.topic.location": "target"}

    assert parse_settings({**ONE_FLOW, **settings}).notes == (
        "A->B.offset-syncs.topic.location: has no effect: emit.offset-syncs.enabled is false",
    )
