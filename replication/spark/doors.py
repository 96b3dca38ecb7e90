"""Who may speak to a job: where Spark listens, and the secret that it asks for. Pure.

Spark deserializes the Java objects that a connection brings, and gives tasks, with the passwords
of the clusters, to whoever registers as an executor. In local mode nobody outside the process has
business there. With executors, each connection proves that it knows a secret, which Spark makes and
hands out by itself on YARN and Kubernetes.
"""

from collections.abc import Mapping
from typing import Final

from replication.config.metrics_settings import is_loopback
from replication.model import is_local_mode

LOOPBACK: Final = "127.0.0.1"
HOST: Final = "spark.driver.host"
BIND: Final = "spark.driver.bindAddress"
AUTHENTICATE: Final = "spark.authenticate"
ENCRYPT: Final = "spark.network.crypto.enabled"
ENCRYPT_FILES: Final = "spark.io.encryption.enabled"
SHUFFLE_SERVICE: Final = "spark.shuffle.service.enabled"
PAGE: Final = "spark.ui.enabled"
LOCAL_IP: Final = "SPARK_LOCAL_IP"
"""The variable that says where Spark's web page listens; no setting does."""

_SECRET: Final = {AUTHENTICATE: "true", ENCRYPT: "true"}
_STRANGERS: Final = (
    "whoever reaches a port of the driver or of an executor can forge reports, read the passwords "
    "of the clusters, and run code"
)


def closed(master: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that close a job's doors under *master*, without those *given*.

    A shuffle service asks for the secret only if it is set up so: with one, the user decides.
    """
    if is_local_mode(master):
        address = {} if HOST in given else {BIND: LOOPBACK}  # Spark listens on its host by default
        wanted = {HOST: LOOPBACK, **address, **_SECRET}
    elif _makes_secret(master) and not _is_on(given, SHUFFLE_SERVICE):
        wanted = {**_SECRET, ENCRYPT_FILES: "true"}
    else:
        return {}
    if AUTHENTICATE in given and not _is_on(given, AUTHENTICATE):
        del wanted[ENCRYPT]  # Spark refuses to encrypt for a stranger
    return {key: value for key, value in wanted.items() if key not in given}


def open_doors(
    master: str | None, settings: Mapping[str, str], environ: Mapping[str, str]
) -> list[str]:
    """Returns what is open in a session with *settings*, each with the step that closes it."""
    found = []
    if not _is_on(settings, AUTHENTICATE):
        found.append(f"{_unauthenticated(master, settings)}: {_STRANGERS}")
    elif not _is_on(settings, ENCRYPT) and not is_local_mode(master):
        found.append(
            f"{ENCRYPT} is not true: whoever sees the network between driver and executors reads "
            f"the passwords of the clusters; set {ENCRYPT}=true"
        )
    if not is_local_mode(master):
        return found
    listens_on = settings.get(BIND, settings.get(HOST, ""))
    if not is_loopback(listens_on):
        found.append(
            f"in local mode Spark needs no other machine and listens on {listens_on or 'all'}: "
            f"leave {HOST} and {BIND} out"
        )
    page = environ.get(LOCAL_IP, "")
    if _is_on(settings, PAGE, "true") and not is_loopback(page):
        found.append(
            f"Spark's web page asks for no password and listens on {page or 'every interface'}: "
            f"set {LOCAL_IP}={LOOPBACK} in the environment, or {PAGE}=false"
        )
    return found


def _makes_secret(master: str | None) -> bool:
    return master is not None and master.startswith(("yarn", "k8s:"))


def _unauthenticated(master: str | None, settings: Mapping[str, str]) -> str:
    if _makes_secret(master) and _is_on(settings, SHUFFLE_SERVICE):
        return (
            f"{SHUFFLE_SERVICE}=true and {AUTHENTICATE} is not set: set {AUTHENTICATE}=true for "
            "the shuffle service of each node, then here"
        )
    if _makes_secret(master) or is_local_mode(master):
        return f"{AUTHENTICATE} is not true; leave it out, and Spark makes a secret for each job"
    return (
        f"{AUTHENTICATE} is not true; conf/deploy/standalone/README.md says how to give master, "
        "workers and jobs a secret"
    )


def _is_on(settings: Mapping[str, str], key: str, default: str = "false") -> bool:
    return settings.get(key, default).strip().lower() == "true"
