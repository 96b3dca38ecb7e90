"""Whether the configured flows would copy a topic in a circle. Asks the clusters for their topics.

The default policy ends every circle by its prefixes. Identity naming does not, and a policy of the
user's may not, so such flows are checked before any of them starts, whichever process runs them.
"""

from contextlib import ExitStack

from replication.config.loops import endless_loops
from replication.config.tree import FlowConfig, MirrorConfig
from replication.control.changed import known_in_force
from replication.errors import ClusterError, ConfigError
from replication.kafka.cluster import Cluster
from replication.kafka.same_cluster import distinct_ids
from replication.log import Log
from replication.mm2.custom import CustomPolicy
from replication.mm2.policy import IdentityPolicy
from replication.topics.conflicts import find_topic_loops

log = Log(__name__)


def check_loops(config: MirrorConfig) -> None:
    """Checks the flows with identity naming, if their clusters form a circle at all.

    Flows that other processes run are among them. The lists are those in force; where the state
    directory cannot be read, the file's are checked, and a warning says so.

    Without an answer from a cluster the check is left out: the flows are checked again when they
    start, as far as they run in one process.

    Raises:
        ConfigError: A topic would be copied in a circle.
    """
    identity = flows_in_a_circle(config)
    if not identity:
        return
    admins = {side.alias: side.admin for flow in identity for side in (flow.source, flow.target)}
    try:
        with ExitStack() as stack:
            clusters = [stack.enter_context(Cluster(*side)) for side in admins.items()]
            names = {cluster.alias: cluster.topic_names() for cluster in clusters}
            ids = distinct_ids(clusters)
    except ClusterError as error:
        log.warning("loops_not_checked", text=error)
        return
    loops = find_topic_loops(identity, names, ids)
    if loops:
        raise ConfigError(config.file, loops)


def flows_in_a_circle(config: MirrorConfig) -> list[FlowConfig]:
    """Returns the flows that might copy a topic in a circle, with their lists in force.

    There are none where the clusters of such flows form no circle; nobody reads changes then.
    """
    if not endless_loops(
        {(flow.flow.source, flow.flow.target): False for flow in _unended(config)}
    ):
        return []
    known, doubt = known_in_force(config)
    if doubt:
        log.warning("loops_not_checked", text=f"not by what is in force: {doubt}")
    return _unended(known)


def _unended(config: MirrorConfig) -> list[FlowConfig]:
    """Returns the flows whose policies may not end a circle by themselves."""
    flows = (*config.flows, *config.other_flows)
    return [flow for flow in flows if isinstance(flow.policy, IdentityPolicy | CustomPolicy)]
