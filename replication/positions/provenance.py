"""Which clusters a record has passed through, as its headers say. Pure."""

from replication.kafka.reader import Headers
from replication.model import PROVENANCE


def has_passed(headers: Headers, cluster: str) -> bool:
    """Whether a record with these headers has passed through *cluster*."""
    return (PROVENANCE, cluster.encode()) in headers


def without_provenance(headers: Headers) -> Headers:
    """The headers in which a record and its copy are equal: each hop appends one to the others."""
    return tuple(header for header in headers if header[0] != PROVENANCE)
