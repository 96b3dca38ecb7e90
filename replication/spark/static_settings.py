"""Settings that are fixed when a Spark session starts: read back, because it may not be ours."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from replication.errors import SetupError


@dataclass(frozen=True, slots=True)
class _Static:
    """A setting, the only value that is safe, Spark's default, and what another value does."""

    name: str
    value: str
    default: str
    reason: str


STATIC = (
    _Static(
        "spark.task.maxFailures", "1", "4", "a failed task would be tried again within its batch"
    ),
    _Static("spark.speculation", "false", "false", "two tasks could write the same records"),
    _Static(
        "spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension",
        "",
        "the tables under state.dir are Delta tables",
    ),
)


def check_static_settings(spark: SparkSession) -> None:
    """Makes sure that the session has the static settings that replication rests on.

    Raises:
        SetupError: It was started with others; all of them are named.
    """
    conf = spark.sparkContext.getConf()
    lines = [
        f"\n  - {static.name} is {found or 'not set'}: {static.reason}; "
        f"set {static.name}={static.value} where the session is started"
        for static in STATIC
        if not _fits(static, found := str(conf.get(static.name, static.default)))
    ]
    if lines:
        raise SetupError(
            "the Spark session was started with settings that cannot be changed any more:"
            + "".join(lines)
        )


def _fits(static: _Static, found: str) -> bool:
    wanted = static.value.lower()
    return wanted in {part.strip().lower() for part in found.split(",")}
