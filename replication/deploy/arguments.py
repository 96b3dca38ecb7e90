"""Merges a user's arguments of spark-submit with ours: lists are joined, nothing is replaced. Pure.

spark-submit takes the last of two equal options, and an option wins over the setting that it stands
for. So ``--jars`` of a user, or ``spark.jars`` in a file, would otherwise replace the project's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

LISTS: Final = {
    "--jars": "spark.jars",
    "--files": "spark.files",
    "--py-files": "spark.submit.pyFiles",
    "--archives": "spark.archives",
}
"""Options that hold a list separated by commas, and the setting that each stands for."""

JOINED: Final = {
    "--driver-java-options": ("spark.driver.extraJavaOptions", " "),
    "--driver-class-path": ("spark.driver.extraClassPath", ":"),
}
"""Options whose values are joined, the setting that each stands for, and what separates them."""

REDACTION: Final = "spark.redaction.regex"
DRIVER_MEMORY: Final = "2g"
_UNITS: Final = {"": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}
_MEMORY: Final = re.compile(r"(\d+)([kmgt]?)b?")
_HEAP: Final = re.compile(r"-Xmx(\d+[kmgtKMGT]?)")
_FLAGS: Final = {"--verbose", "-v", "--supervise", "--load-spark-defaults"}
_SHORT: Final = {"-c": "--conf"}

Arguments = list[tuple[str, str | None]]
"""Options with their values, None for a flag, in the order of the command line."""


class ArgumentsError(ValueError):
    """The arguments are not valid for spark-submit; the text says which one, and what to do."""


def parse(words: Sequence[str]) -> Arguments:
    """Splits *words* as spark-submit does: ``--name value``, ``--name=value``, and flags.

    Raises:
        ArgumentsError: A word is not an option, or an option has no value.
    """
    found: Arguments = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            raise ArgumentsError(
                f"'{word}' is not an option: spark-submit's options follow --; arguments of the "
                "job stand before it"
            )
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name)
        if name in _FLAGS:
            found.append((name, None))
        elif equals and name.startswith("--"):
            found.append((name, value))
        else:
            try:
                found.append((name, next(rest)))
            except StopIteration:
                raise ArgumentsError(f"{word} needs a value") from None
    return found


def settings(arguments: Arguments, option: str = "--conf") -> dict[str, str]:
    """Returns the settings of Spark among *arguments*; of two equal ones the last."""
    pairs = (value.partition("=") for name, value in arguments if name == option and value)
    return {key.strip(): value.strip() for key, _, value in pairs}


def last(arguments: Arguments, option: str, setting: str = "") -> str | None:
    """Returns the value that spark-submit takes for *option*, or else for *setting*, or None."""
    values = [value for name, value in arguments if name == option]
    return values[-1] if values else settings(arguments).get(setting)


def driver_memory(arguments: Arguments, environ: Mapping[str, str]) -> str:
    """Returns the driver's heap as ``2g``: of *arguments*, of ``DRIVER_MEMORY``, or ours.

    Java lets ``_JAVA_OPTIONS`` win over all of them.
    """
    if found := _HEAP.findall(environ.get("_JAVA_OPTIONS", "")):
        return str(found[-1])
    given = last(arguments, "--driver-memory", "spark.driver.memory")
    return given or environ.get("DRIVER_MEMORY") or DRIVER_MEMORY


def megabytes(memory: str) -> int:
    """Returns *memory* in megabytes: ``2g`` is 2048.

    Raises:
        ArgumentsError: *memory* is no size.
    """
    found = _MEMORY.fullmatch(memory.strip().lower())
    if not found:
        raise ArgumentsError(f"the driver's memory is {memory!r}; write a size such as 2g or 1500m")
    return int(int(found[1]) * _UNITS[found[2]])


def merge(
    ours: Arguments, theirs: Arguments, defaults: Mapping[str, str] | None = None
) -> list[str]:
    """Returns one command line of both.

    Lists, Java options and class paths are joined, ours first. Of another option or setting theirs
    wins. What Spark redacts by our rule it redacts as well by theirs.

    Args:
        ours: The project's options.
        theirs: The user's options.
        defaults: The settings of the user's properties file, which options would hide.
    """
    given = {**(defaults or {}), **settings(theirs)}
    merged = set(LISTS) | set(JOINED)
    hidden = {*LISTS.values(), *(setting for setting, _ in JOINED.values()), REDACTION}
    words: list[str] = []
    for option, setting in LISTS.items():
        lists = [*_values(ours, option), *(_values(theirs, option) or [given.get(setting, "")])]
        items = [item.strip() for text in lists for item in text.split(",") if item.strip()]
        if items:
            words += [option, ",".join(dict.fromkeys(items))]
    for option, (setting, separator) in JOINED.items():
        texts = [*_values(ours, option), *(_values(theirs, option) or [given.get(setting, "")])]
        if any(texts):
            words += [option, separator.join(filter(None, texts))]
    rules = [rule for rule in (settings(ours).get(REDACTION), given.get(REDACTION)) if rule]
    if rules:
        words += ["--conf", f"{REDACTION}={'|'.join(map(_group, rules))}"]
    for name, value in (*ours, *theirs):
        if name in merged or (name == "--conf" and (value or "").partition("=")[0] in hidden):
            continue
        words += [name] if value is None else [name, value]
    return words


def _values(arguments: Arguments, option: str) -> list[str]:
    return [value for name, value in arguments if name == option and value]


def _group(rule: str) -> str:
    """Returns *rule* as part of an alternative: a ``(?i)`` at its start holds for it only."""
    return f"(?i:{rule[4:]})" if rule.startswith("(?i)") else f"(?:{rule})"
