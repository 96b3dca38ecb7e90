"""How this process reaches a state directory: the rule, asked with what the process sees."""

import os
from pathlib import Path

from replication.config.state_access import StateAccess
from replication.state.hadoop_site import hadoop_site
from replication.state.storage import Storage, storage_of

_SHIPPED = Path("__spark_conf__/__hadoop_conf__")
"""Where a driver on YARN finds the files of the host that submitted it."""

_CONTAINER = "CONTAINER_ID"
"""A variable that YARN gives each of its containers. Pods, which have SPARK_USER as well, act on
HDFS as the user of their process."""


def storage_for(access: StateAccess) -> Storage:
    """Returns how this process reaches *access*.

    Raises:
        SetupError: The configuration asks for delta-rs where it cannot be used, or a file of
            Hadoop's cannot be read.
    """
    if not access.state_dir.startswith("hdfs:"):
        return storage_of(access, hadoop_site(os.environ), os.environ)
    if "HADOOP_CONF_DIR" not in os.environ and _SHIPPED.is_dir():
        os.environ["HADOOP_CONF_DIR"] = str(_SHIPPED.absolute())
    storage = storage_of(access, hadoop_site(os.environ), os.environ)
    if storage.engine == "delta-rs" and _CONTAINER in os.environ and "SPARK_USER" in os.environ:
        # a container of YARN runs as the node manager's user, and acts as the one who submitted
        os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
    return storage
