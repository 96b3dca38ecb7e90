"""Kafka client properties in Java's and librdkafka's dialects. Pure."""
