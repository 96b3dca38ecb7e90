"""How often a flow's loop looks at its queries: less often while nothing changes. Pure.

A look asks the JVM several times. With 20 idle flows, two looks a second of each took a third of
the CPU that the application used.
"""

LEAST_SECONDS = 0.5
"""As often as executors report."""

MOST_SECONDS = 2.0
"""How late an idle flow notices that its query has failed, or that its first records arrive."""


class Pace:
    """The pause before the next look.

    Attributes:
        seconds: As long as the least one, until `look` has found nothing.
    """

    def __init__(self) -> None:
        self.seconds = LEAST_SECONDS

    def look(self, *, had_news: bool) -> None:
        """Sets the next pause: twice the last one, unless the look *had_news*."""
        self.seconds = LEAST_SECONDS if had_news else min(MOST_SECONDS, 2 * self.seconds)
