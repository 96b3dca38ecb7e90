"""An idle flow is looked at less often, until something happens."""

from replication.flows.replicate.loop import LEAST_SECONDS, MOST_SECONDS, PollInterval


def test_the_pause_grows_to_its_most_and_news_end_it() -> None:
    pace = PollInterval()
    pauses = [pace.seconds]
    for had_news in (False, False, False, False, True, True, False):
        pace.look(had_news=had_news)
        pauses.append(pace.seconds)

    assert pauses == [0.5, 1.0, 2.0, 2.0, 2.0, 0.5, 0.5, 1.0]
    assert (pauses[0], max(pauses)) == (LEAST_SECONDS, MOST_SECONDS)
