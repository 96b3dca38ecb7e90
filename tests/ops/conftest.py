"""What the tests of the operator's view share."""

from pathlib import Path

import pytest

from replication.demo.workload import create_topic
from tests.support.flows import unique_flow
from tests.support.local import Clusters
from tests.support.mirror_files import write_config


@pytest.fixture
def file(clusters: Clusters, tmp_path: Path, topic_name: str) -> Path:
    """A mirror of one flow with one topic."""
    create_topic(clusters[0].bootstrap, topic_name, 1)
    return write_config(tmp_path, clusters, topic_name, flow=unique_flow())
