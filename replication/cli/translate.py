"""``translate``: one offset on the other cluster."""

from functools import partial

import click

from replication.cli.options import (
    AS_JSON,
    FILE,
    ONE_FLOW,
    chosen_flow,
    echo,
    known_errors,
    print_json,
    say,
)
from replication.config.file import load_config
from replication.control.changed import in_force
from replication.control.translate import Question, answer_question, log_start, no_answer
from replication.control.written import open_written
from replication.model import TopicPartition
from replication.offsets.map import NoAnswer, sentence


@click.command()
@FILE
@ONE_FLOW
@click.option("--topic", required=True, help="Its name on either cluster.")
@click.option(
    "--partition", required=True, type=click.IntRange(min=0), help="The same on both clusters."
)
@click.option(
    "--offset", required=True, type=click.IntRange(min=0), help="The next offset to read."
)
@click.option("--back", is_flag=True, help="From the target to the source (failback).")
@AS_JSON
@known_errors
def translate(
    *,
    file: str,
    name: str | None,
    topic: str,
    partition: int,
    offset: int,
    back: bool,
    as_json: bool,
) -> None:
    """Translate a group's offset to the other cluster.

    A group that would read OFFSET next on the source resumes at the printed offset on the target;
    with --back it is the other way round. Exits with 8 if no offset is safe.
    """
    config = in_force(load_config(file))
    flow = chosen_flow(config, name)
    question = Question(TopicPartition(topic, partition), offset, back)
    with open_written(config, flow) as (state, doubts):
        answer = answer_question(
            flow, state.offsets(flow.flow).runs, question, partial(log_start, flow)
        )
    for doubt in doubts:
        say(doubt, err=True)
    if as_json:
        print_json(answer.document())
    if isinstance(answer.translation, NoAnswer):
        raise no_answer(flow, answer)
    if not as_json:
        echo(sentence(answer.translation))
