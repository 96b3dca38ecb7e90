"""What is wrong with the JAAS configuration of a client, before anything connects. Pure."""

from collections.abc import Mapping

from replication.config.clients.jaas import JaasError, parse_jaas

WITH_PASSWORD = ("PlainLoginModule", "ScramLoginModule")


def find_jaas_problem(java: Mapping[str, str]) -> str | None:
    """Returns what is wrong with ``sasl.jaas.config`` in these properties; None if nothing.

    Any login module is allowed: the one that is loaded knows its own options.
    """
    text = java.get("sasl.jaas.config")
    if text is None or not java.get("security.protocol", "").upper().startswith("SASL_"):
        return None
    try:
        modules = parse_jaas(text)
    except JaasError as error:
        return f"invalid, {error} (value not shown)"
    if "sasl.client.callback.handler.class" in java:  # it may bring the credentials
        return None
    for module in modules:
        kind = module.name.rpartition(".")[2]
        missing = [name for name in ("username", "password") if name not in module.options]
        if kind in WITH_PASSWORD and missing:
            return f"{kind} needs {' and '.join(missing)}"
    return None
