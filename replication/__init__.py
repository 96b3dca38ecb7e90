"""Kafka-to-Kafka replication on Spark Structured Streaming: MirrorMaker 2's work, exact offsets."""
