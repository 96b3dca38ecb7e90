"""Requests through Hadoop's file systems, in the JVM that ``replication stop`` starts."""

from pathlib import Path

import pytest

from replication.config.state_access import StateAccess
from replication.errors import StateError
from replication.kafka.jvm import open_jvm
from replication.model import Flow
from replication.spark.hadoop import hadoop_conf
from replication.state.files import HadoopFiles, hadoop_class_path
from replication.state.requests import request_stop

pytestmark = pytest.mark.spark  # not a session, but the jars of PySpark and set-up


def test_hadoop_creates_finds_and_deletes_a_request(tmp_path: Path) -> None:
    request = tmp_path / "_control" / "stop-A-to-B"

    with open_jvm(hadoop_class_path()) as jvm:
        files = HadoopFiles(jvm, hadoop_conf(jvm, {}))
        before = files.exists(request.as_uri())
        missing = files.read(request.as_uri())
        files.create(request.as_uri(), "what is asked for: ü")
        text = files.read(request.as_uri())
        created = files.exists(request.as_uri()), request.exists()
        found = files.find((tmp_path / "_control" / "stop-").as_uri())
        others = files.find((tmp_path / "_control" / "start-").as_uri())
        files.delete(request.as_uri())

        assert (before, created) == (False, (True, True))
        assert (missing, text) == ("", "what is asked for: ü")
        assert (found, others) == ([request.as_uri()], [])
        assert files.find((tmp_path / "missing" / "stop-").as_uri()) == []
        assert not request.exists()


def test_a_file_system_that_hadoop_does_not_know_is_an_error() -> None:
    with pytest.raises(StateError, match=r"cannot write stop requests: .*No FileSystem for scheme"):
        request_stop(StateAccess("x://host/state"), [Flow("A", "B")], timeout_seconds=1)


def test_a_stop_of_what_nobody_runs_asks_no_file_system() -> None:
    access, flow = StateAccess("x://host/state"), Flow("A", "B")

    assert request_stop(access, [flow], timeout_seconds=1, idle=lambda flows: flows) == {}
