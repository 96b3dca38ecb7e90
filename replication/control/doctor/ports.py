"""Whether the driver and ``serve`` can listen where the file says."""

import socket
from collections.abc import Iterator

from replication.config.tree import MirrorConfig
from replication.control.doctor.judgement import Judgement, unknown
from replication.state.job_lock import find_job_owner


def look_at_ports(config: MirrorConfig) -> Iterator[Judgement]:
    """Yields whether the driver and ``serve`` can listen where the file says."""
    owners = (find_job_owner(config.state_dir, flow) for flow in config.names)
    is_running = any(owner is not None for owner in owners)
    metrics, rest = config.metrics, config.serve
    if metrics.port and metrics.port == rest.port:
        yield Judgement(
            what="ports",
            found=f"metrics.port and rest.port are both {rest.port}",
            verdict="warning",
            next_step="give one of them another number, if `serve` runs on this machine",
        )
    for key, listen, port in (
        ("metrics.port", metrics.listen, metrics.port),
        ("rest.port", rest.listen, rest.port),
    ):
        if port:
            yield judge_port(f"{key} {port}", _port_obstacle(listen, port), is_running=is_running)


def judge_port(what: str, obstacle: str, *, is_running: bool) -> Judgement:
    """Returns what follows if nothing can listen there because of *obstacle*; "" if it can."""
    if not obstacle:
        return Judgement(what=what, found="free")
    if is_running:
        return unknown(what, f"{obstacle}, perhaps because of a job of this file that runs here")
    key = what.partition(" ")[0]
    return Judgement(
        what=what,
        found=obstacle,
        verdict="warning",
        next_step=f"write another {key}, or end the program that has it (ss -ltnp)",
    )


def _port_obstacle(listen: str, port: int) -> str:
    try:
        family, kind, _, _, place = socket.getaddrinfo(listen, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except (OSError, UnicodeError) as error:
        return f"{listen}:{port}: {getattr(error, 'strerror', None) or error}"
    return ""
