"""The only code that touches the world: files, Kafka, Spark, Delta, processes."""
