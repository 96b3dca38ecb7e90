"""The page that Prometheus reads. It is made once for each look at the flows."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector

from replication.figures.observation import Observation
from replication.metrics.collector import FlowCollector, nothing_further
from replication.metrics.limits import Limits
from replication.metrics.mm2_names import mm2_families

_NOTHING: Final[Sequence[Observation]] = ()


class MetricsPage:
    """The series of the flows, in the format that whoever asks accepts.

    Any number of readers cost as much as one: what was written for a look is kept until the next.

    Args:
        look: Returns the newest observation of each flow.
        limits: How many series a flow may have.
        is_stale: Whether an observation is so old that its flow is silent.
        mm2_names: Whether MirrorMaker 2's names are shown as well.
    """

    def __init__(
        self,
        look: Callable[[], Iterable[Observation]],
        limits: Limits,
        *,
        is_stale: Callable[[Observation], bool] = lambda _observed: False,
        mm2_names: bool = False,
    ) -> None:
        self._look = look
        self._is_stale = is_stale
        self._shown = _NOTHING
        self._key: object = None
        self._written: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._registry = CollectorRegistry()  # not the library's own, which has what it likes
        further = mm2_families if mm2_names else nothing_further
        self._registry.register(FlowCollector(lambda: self._shown, limits, is_stale, further))
        ProcessCollector(registry=self._registry)

    def write(self, accept: str) -> tuple[bytes, str]:
        """Returns the page and its content type, of those that the header *accept* names."""
        encode, content_type = choose_encoder(accept)
        with self._lock:
            shown = tuple(self._look())
            key = [(id(observed), self._is_stale(observed)) for observed in shown]
            if key != self._key:
                self._key = key
                self._shown = shown
                self._written = {}
            if content_type not in self._written:
                self._written[content_type] = encode(self._registry)
            return self._written[content_type], content_type
