"""Hadoop's configuration, by which a state directory away from this machine is reached."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JVMView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # commands without Spark use this module as well


def session_conf(spark: "SparkSession") -> Any:  # noqa: ANN401 - a Java object
    """Returns the configuration of everything that the session does."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - it has no public name


def set_hadoop_properties(spark: "SparkSession", properties: Mapping[str, str]) -> None:
    """Sets Hadoop's *properties* for everything that the session does from now on.

    As ``spark.hadoop.*`` they would be arguments of a process, in Spark's pages and its event log.
    """
    _set_all(session_conf(spark), properties)


def hadoop_conf(jvm: JVMView, properties: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Makes a configuration: *properties* over what the class path and HADOOP_CONF_DIR say."""
    conf = jvm.org.apache.hadoop.conf.Configuration()
    _set_all(conf, properties)
    return conf


def _set_all(conf: Any, properties: Mapping[str, str]) -> None:  # noqa: ANN401
    for key, value in properties.items():
        conf.set(key, value)
