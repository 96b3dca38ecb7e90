"""A background query is started again, and an internal error at its end is not lost."""

import threading

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from replication.app.background import _running
from replication.flows.supervised import Supervised
from replication.spark.session import LateSession
from tests.support.said import SaidLines
from tests.support.waiting import wait_until


def never() -> DataStreamWriter:
    raise AssertionError("no query is started")


def broken() -> SparkSession:
    raise ZeroDivisionError("unexpected")


def test_an_internal_error_at_the_end_is_the_flows(said: SaidLines) -> None:
    stop = threading.Event()

    def stopped() -> SparkSession:
        stop.set()
        return broken()

    thread = Supervised("one", LateSession(stopped), never, stop)
    with pytest.raises(ZeroDivisionError), _running(thread, stop):
        wait_until(lambda: not thread.is_alive(), 30)
    assert said.of("background_query_failed")


def test_one_before_that_ends_nothing(said: SaidLines) -> None:
    stop = threading.Event()
    with _running(Supervised("one", LateSession(broken), never, stop), stop):
        wait_until(lambda: said.of("background_query_failed"), 30)
