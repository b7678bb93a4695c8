"""Conditions on dates and times, as Spark writes them: which of them recur, and which move on with the calendar."""

from __future__ import annotations

import pytest

from sidestep.predicate import Column, Opaque
from sidestep.predicate.types import STRING, TIMESTAMP
from sidestep.workload.canonical import formula_of
from sidestep.workload.features.eligible import compares_date
from sidestep.workload.features.recurring import recurs

RECURRING = [
    "(hour(t) >= 6)",
    "(hour(t) IN (6, 7, 8))",
    "(dayofweek(CAST(t AS DATE)) IN (1, 7))",
    "(weekday(t) = 3)",
    "((weekday(CAST(t AS DATE)) + 1) = 3)",
    "(month(CAST(t AS DATE)) IN (6, 7, 8))",
    "(quarter(CAST(t AS DATE)) = 2)",
    "(dayofmonth(t) = 1)",
    "(minute(t) = 0)",
    "(secondwithfraction(t) = 3.000000BD)",
    "(((hour(t) * 60) + minute(t)) > 400)",
    "(hour(from_utc_timestamp(t, 'Asia/Tokyo')) = 3)",
    "(date_format(t, 'EEEE') = 'Monday')",
    "(date_format(t, 'HH:mm') < '06:30')",
    "CASE WHEN (hour(t) < 6) THEN true WHEN (hour(t) < 12) THEN false ELSE false END",
    "(CASE WHEN (hour(t) < 6) THEN 'night' ELSE 'day' END = 'night')",
    "(t = date_trunc('day', t))",
    "((t - date_trunc('day', t)) < INTERVAL '0 06:00:00' DAY TO SECOND)",
    "(t = last_day(t))",
    "(trunc(t, 'MM') = t)",
    "is_weekend(t)",
    "(`part of day`(t) = 'noon')",
    "((hour(t) = 5) OR (dayofweek(CAST(t AS DATE)) = 1))",
]
MOVING = [
    "(date_trunc('HOUR', t) = TIMESTAMP '2024-01-01 06:00:00')",
    "(CAST(t AS DATE) = DATE '2024-01-01')",
    "(datediff(CAST(t AS DATE), DATE '2024-01-01') > 3)",
    "(year(t) = 1995)",
    "(year(CAST(t AS DATE)) IN (1994, 1995))",
    "(((year(t) * 100) + month(t)) = 202401)",
    "(date_format(t, 'yyyy-MM') = '2024-01')",
    "(date_format(t, pattern) = '2024-01')",
    "startswith(CAST(t AS STRING), '2024-01')",
    "(CAST(t AS BIGINT) > 1700000000L)",
    "(unix_timestamp(t, 'yyyy-MM-dd HH:mm:ss') > 1700000000L)",
    "(CAST(date_trunc('MONTH', t) AS STRING) = '2024-01-01')",
    "(date_add(t, 3) > 19000)",
    "CASE WHEN (t > TIMESTAMP_NTZ '2024-01-01 00:00:00') THEN true ELSE false END",
    "(hour(t) = 5 AND a very long list of other things...",
]


@pytest.mark.parametrize("text", RECURRING)
def test_what_comes_again_recurs(text: str):
    assert recurs(text, ["t"])
    assert not compares_date(formula_of(Opaque(text, (Column("t", TIMESTAMP),), "UTC")))


@pytest.mark.parametrize("text", MOVING)
def test_what_says_where_on_the_calendar_moves(text: str):
    assert not recurs(text, ["t"])
    assert compares_date(formula_of(Opaque(text, (Column("t", TIMESTAMP),), "UTC")))


def test_columns_of_any_name():
    assert recurs("(hour(`time ``of`` day (local)`) = 3)", ["time `of` day (local)"])
    assert not recurs("(year(`time ``of`` day (local)`) = 3)", ["time `of` day (local)"])
    assert recurs("(hour(year) = 3)", ["year"]), "a column called like a function"
    assert not recurs("(year(year) = 3)", ["year"])
    assert recurs("(hour(date) = 3)", ["date"])


def test_an_absolute_date_moves_whatever_it_is_compared_with():
    text = "(to_date(s, 'yyyyMMdd') >= DATE '2024-01-01')"
    assert compares_date(formula_of(Opaque(text, (Column("s", STRING),), "UTC")))
    assert not compares_date(formula_of(Opaque("(upper(s) = 'DATE')", (Column("s", STRING),), "UTC")))
    assert not compares_date(formula_of(Opaque("(upper(s) = 'DATE ''2024''')", (Column("s", STRING),), "UTC")))
