"""A process that knows no secret and speaks to a driver, as another user of the machine might.

Run as a program with addresses: says at which of them the mirror's plugin in a driver answers.
"""

import sys
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext

ENDPOINT = "org.apache.spark.internal.plugin.PluginEndpoint"
REPORT = "executor\tstranger\t0\nruns\tA->B#1\torders\t0\t0,1,0,1;\t"


def main(*addresses: str) -> None:
    SparkContext._ensure_initialized(conf=SparkConf().set("spark.driver.memory", "256m"))  # noqa: SLF001
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the way to Java classes
    spark = jvm.org.apache.spark
    conf = (
        spark.SparkConf(False)
        .set("spark.rpc.askTimeout", "5s")
        .set("spark.rpc.lookupTimeout", "5s")
    )
    constants = jvm.java.lang.Class.forName("org.apache.spark.internal.config.package$")
    secret_file = constants.getField("MODULE$").get(None).AUTH_SECRET_FILE()
    security = spark.SecurityManager(conf, jvm.scala.Option.empty(), secret_file)
    environment = spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, security, True)
    report = spark.internal.plugin.PluginMessage("replication.Acknowledgements", REPORT)
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            driver = environment.setupEndpointRef(spark.rpc.RpcAddress(host, int(port)), ENDPOINT)
            answer = driver.askSync(report, jvm.scala.reflect.ClassTag.Any())
            print(address, "answered", answer)  # noqa: T201
        except Py4JJavaError as error:
            print(address, "refused", str(error.java_exception).partition("\n")[0])  # noqa: T201
    environment.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
