"""Until when certificates are valid."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Final

from replication.control.doctor.judgement import Judgement, unknown
from replication.errors import ClusterError
from replication.kafka.certificate import served_until
from replication.kafka.jvm import shared_jvm
from replication.kafka.own_certificates import own_certificates

DAYS_LEFT: Final = 21
"""From so few days of a certificate on there is a warning."""

OF_THE_BROKER: Final = "renew the certificate in the broker's ssl.keystore.location"


def look_at_certificate(alias: str, address: str) -> Judgement:
    """Returns what follows from the certificate that a broker of *alias* shows at *address*."""
    what = f"certificate of {alias} at {address}"
    try:
        until = served_until(address)
    except (OSError, ValueError) as error:
        return unknown(what, str(error))
    return judge_certificate(what, until, datetime.now(timezone.utc))


def look_at_own(alias: str, admin: Mapping[str, str]) -> Iterator[Judgement]:
    """Yields what follows from the certificates in the stores of the clients of *alias*."""
    try:
        ends = own_certificates(shared_jvm(), admin)
    except ValueError as error:
        yield unknown(f"stores of {alias}", str(error))
        return
    for key, until in ends.items():
        where = f"certificate in {alias}.{key}"
        yield judge_certificate(where, until, datetime.now(timezone.utc), f"renew the {where}")


def judge_certificate(
    what: str, until: datetime, now: datetime, step: str = OF_THE_BROKER
) -> Judgement:
    """Returns what follows from a certificate that is valid *until* then; *step* renews it."""
    days = (until - now).days
    if until <= now:
        return Judgement(
            what=what,
            found=f"ended on {until:%Y-%m-%d}",
            verdict="problem",
            next_step=step,
            exit_code=ClusterError.exit_code,
        )
    is_near = days < DAYS_LEFT
    return Judgement(
        what=what,
        found=f"valid until {until:%Y-%m-%d}, {days} days left",
        verdict="warning" if is_near else "ok",
        next_step=f"{step}, before it ends" if is_near else "",
    )
