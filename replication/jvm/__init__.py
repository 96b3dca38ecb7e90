"""The one class that runs inside Kafka's producer, and its place in the wheel. No Python at run time."""
