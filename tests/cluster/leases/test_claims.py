"""The claims of a process with many flows."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from replication.app.run_history import JobSpec, open_claims
from replication.config.parse import parse
from tests.support.local import Clusters, Until
from tests.support.waiting import in_time

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

FLOWS = 20


@pytest.mark.usefixtures("spark")
def test_a_standby_of_many_flows_leaves_all_groups_at_the_same_time(
    clusters: Clusters, tmp_path: Path, topic_name: str, until: Until
) -> None:
    targets = [f"T{number}-{topic_name[-6:]}" for number in range(FLOWS)]
    settings = {"clusters": ", ".join(["S", *targets])}
    settings["S.bootstrap.servers"] = clusters[0].bootstrap
    for target in targets:
        settings[f"{target}.bootstrap.servers"] = clusters[1].bootstrap
        settings[f"S->{target}.enabled"] = "true"
    config = parse("test.yaml", settings, default_state_dir=tmp_path.as_uri())
    launch = JobSpec(config, config.flows, "replicate", standby=True)

    with ExitStack() as stack:
        claims = stack.enter_context(open_claims(launch))
        assert len(claims) == FLOWS
        until(lambda: all(claim.look() == "owner" for claim in claims.values()), 30)

        with in_time(4, "leaving all groups"):
            stack.close()
