"""What keeps a job from starting, as far as the file and this machine's disk tell. Asks nobody."""

from replication.config.checks import idle_job_problem, local_state_problem
from replication.config.stores import missing_files
from replication.config.tree import MirrorConfig
from replication.model import Job, is_local_mode


def start_problems(config: MirrorConfig, master: str, job: Job | None = None) -> list[str]:
    """Returns one line for each reason why *job*, or any job, cannot run on *master*.

    Args:
        config: The configuration.
        master: Spark's master. Files that *config* names must be there if it is a local one.
        job: The job; None to leave out what depends on it.
    """
    return [
        *filter(None, [local_state_problem(config.state_dir, master)]),
        *(missing_files(config) if is_local_mode(master) else ()),
        *filter(None, [idle_job_problem(config, job) if job else None]),
    ]
