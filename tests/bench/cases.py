"""Further contenders with settings of their own, each in one text: for choosing defaults."""

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replication.config.home import home
from tests.bench.peers import MM2_JVM, MODES, Contender, Mirror, MirrorMaker2, PlainCopy

PEERS: Final[Mapping[str, type[MirrorMaker2 | PlainCopy]]] = {
    "mm2": MirrorMaker2,
    "clients": PlainCopy,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A contender as a word or nothing, and its settings.

    Args:
        text: As it was given.
        word: ``mm2``, ``clients`` for `PlainCopy`, a mode of the mirror, or empty for the mode of
            the other contenders.
        settings: Lines of the configuration.
        spark: Arguments of the mirror's spark-submit.
        jvm: Options of the JVM of another contender, instead of Kafka's own.
    """

    text: str
    word: str
    settings: Mapping[str, str]
    spark: tuple[str, ...] = ()
    jvm: tuple[str, ...] = MM2_JVM

    def contender(self, number: int, mode: str) -> Contender:
        """The contender ``caseN``, which runs in *mode* unless the case names one."""
        name = f"case{number}"
        if peer := PEERS.get(self.word):
            jars = home() / "jars" / "mm2"
            return peer(jars=jars, settings=self.settings, name=name, jvm=self.jvm)
        wanted = next(known for known in MODES if known == (self.word or mode))
        return Mirror(mode=wanted, settings=self.settings, spark=self.spark, label=name)


def case(text: str) -> Case:
    """Parses ``realtime producer.linger.ms=1 spark.locality.wait=0 -XX:+UseParallelGC``.

    A setting whose name begins with ``spark.`` is one of Spark, a word that begins with ``-`` an
    option of the JVM, and any other setting a line of the configuration.

    Raises:
        argparse.ArgumentTypeError: A word is none of these.
    """
    words = shlex.split(text)
    word = words.pop(0) if words and words[0] in (*PEERS, *MODES) else ""
    java = [one for one in words if one.startswith("-")]
    pairs = [one for one in words if not one.startswith("-")]
    if wrong := [one for one in pairs if "=" not in one]:
        raise argparse.ArgumentTypeError(
            f"{wrong[0]!r} is neither KEY=VALUE nor an option of the JVM; a case may begin with "
            f"{', '.join((*PEERS, *MODES))}"
        )
    settings = dict(one.split("=", 1) for one in pairs if not one.startswith("spark."))
    spark = [part for one in pairs if one.startswith("spark.") for part in ("--conf", one)]
    if word in PEERS and spark:
        raise argparse.ArgumentTypeError(f"{text!r}: {word} has no settings of Spark")
    if word in PEERS:
        return Case(text, word, settings, jvm=tuple(java) or MM2_JVM)
    spark += ["--driver-java-options", " ".join(java)] if java else []
    return Case(text, word, settings, tuple(spark))
