"""What a look has found: one row for each question, and the exit code that follows. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from replication.errors import ReplicationError, printable
from replication.foreign_json import OR_NULL, in_json

Verdict = Literal["ok", "warning", "unknown", "problem"]

WORST_FIRST: Final[tuple[Verdict, ...]] = ("problem", "unknown", "warning", "ok")
COMMAND: Final = re.compile(r"kafka-(?:acls|configs|topics) --[^()]+")
AS_SAID: Final = "do what this row says"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One row.

    Args:
        what: What was looked at.
        found: What was seen, or why nothing was.
        verdict: What follows; `unknown` if it could not be looked at.
        next_step: What mends it, in words or as a command.
        commands: The lines of a shell that mend it, where there are any.
        exit_code: That of a start which meets this problem; 0 for other verdicts.
    """

    what: str
    found: str
    verdict: Verdict = "ok"
    next_step: Annotated[str, OR_NULL] = ""
    commands: tuple[str, ...] = ()
    exit_code: int = field(default=0, metadata=in_json(""))


def told(
    what: str, text: str, verdict: Verdict, exit_code: int = 0, separator: str = "; "
) -> CheckResult:
    """Returns a finding by a *text* as errors have them: cause, first *separator*, next step."""
    found, _, step = text.partition(separator)
    return CheckResult(
        what=what,
        found=found,
        verdict=verdict,
        next_step=step or AS_SAID,
        commands=tuple(command.strip() for command in COMMAND.findall(step)),
        exit_code=exit_code,
    )


def failed(what: str, error: ReplicationError) -> CheckResult:
    """Returns the problem that *error* is, with the command that it carries."""
    found = told(what, str(error), "problem", error.exit_code)
    return replace(found, commands=tuple(filter(None, [error.command])))


def unknown(what: str, reason: str, next_step: str = "") -> CheckResult:
    """Returns that *what* could not be looked at, and why."""
    return CheckResult(
        what=what, found=f"unknown: {reason}", verdict="unknown", next_step=next_step
    )


def worst(findings: Iterable[CheckResult]) -> Verdict:
    """Returns the verdict on all of *findings*."""
    verdicts = {finding.verdict for finding in findings}
    return next((verdict for verdict in WORST_FIRST if verdict in verdicts), "ok")


def exit_code(findings: Iterable[CheckResult]) -> int:
    """Returns the code of the first problem, which a start meets first; 0 if there is none."""
    return next((one.exit_code for one in findings if one.verdict == "problem"), 0)


def script(findings: Iterable[CheckResult]) -> Iterator[str]:
    """Yields lines of a shell that mend what can be mended so; the other steps are comments."""
    said = set[str]()
    for finding in findings:
        if finding.verdict == "ok" or not finding.next_step:
            continue
        lines = finding.commands or (_comment(finding.next_step),)
        if new := [line for line in lines if line not in said]:
            said.update(new)
            yield _comment(f"{finding.what}: {finding.found}")
            yield from new


def _comment(text: str) -> str:
    """Returns *text* as one comment of a shell: a second line of it would be run."""
    return f"# {printable(' '.join(text.split()))}"
