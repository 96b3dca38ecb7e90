"""The Java classes of the mirror in three packages, and how they get into the wheel.

`producer` runs inside Kafka's producer, `plugin` in the driver and the executors of Spark; Python
calls Kafka through `calls`. `Acknowledgements` alone has no package: users' settings name it.
"""
