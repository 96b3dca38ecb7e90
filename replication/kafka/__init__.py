"""One Kafka cluster, through its clients."""
