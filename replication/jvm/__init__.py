"""The one class that runs inside Kafka's producer, and how it gets into the wheel."""
