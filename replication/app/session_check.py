"""What a session must be like before flows use it, checked as soon as it has started."""

from pyspark.sql import SparkSession

from replication.app.claims import Launch
from replication.errors import ConfigError, SetupError
from replication.log import Log
from replication.model import runs
from replication.spark.acknowledged import NOT_REPORTED, is_reported
from replication.spark.requirements import check_interceptor
from replication.spark.session import jvm_of
from replication.spark.static_settings import check_static_settings
from replication.spark.transform_check import transform_problems

log = Log(__name__)


def check_session(launch: Launch, spark: SparkSession) -> None:
    """Makes sure that *spark* replicates what *launch* says as it must.

    Raises:
        SetupError: It would not.
        ConfigError: It does not take an expression of the file.
    """
    check_static_settings(spark)
    if not runs(launch.job, "records") or not launch.chosen:
        return
    if problems := [
        f"{flow.flow}.replication.transforms.{one.name}.{part}: {text}"
        for flow in launch.chosen
        for one in flow.transforms
        for part, text in transform_problems(spark, one)
    ]:
        raise ConfigError(launch.config.file, problems)
    if any(flow.record_timestamps == "preserve" for flow in launch.chosen):
        check_interceptor(jvm_of(spark))
    if not is_reported(spark):
        if limited := next((flow for flow in launch.chosen if flow.limits), None):
            raise SetupError(
                f"{limited.flow} cannot be limited to {limited.limits[0]}: {NOT_REPORTED}"
            )
        log.warning("records_not_reported", text=NOT_REPORTED)
