"""What the commands have in common: their options, and the Spark session that each works in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
from pyspark.sql import SparkSession

import sidestep
from sidestep.cli.messages import plain_messages, progress
from sidestep.cli.session import spark_session

app = typer.Typer(
    name="sidestep",
    help="Spark queries that read only what they need.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LOG_HELP = "A log: SQL, JSON lines, CSV, a recording, a Spark event log, or a folder of them."
TablePath = Annotated[
    str, typer.Argument(metavar="TABLE", help="Path of a Parquet folder or Delta table, or a name given with --table.")
]
QueryText = Annotated[str, typer.Argument(metavar="SQL", help="The query, in Spark SQL.", show_default=False)]
TablePaths = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="NAME=PATH", help="Call the table at PATH by NAME. Repeatable."),
]
Master = Annotated[str, typer.Option(help="Where Spark runs.")]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark. Repeatable.")]
IndexDir = Annotated[
    str | None, typer.Option(help="Folder of the indexes, if they are not in the tables' own _sidestep folders.")
]
LogPath = Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP)]
Dialect = Annotated[
    str | None, typer.Option(help="The SQL of the log, if not Spark's: postgres, snowflake, … (needs sqlglot).")
]
SynopsisText = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[COLUMN=]KIND[:SIZE]",
        help="What a column gets, or without one every column: range-set, gap-histogram, bloom, grt, values, none; "
        "several with + between. Repeatable, or with commas.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="BYTES", help="What all synopses may take, such as 8MB: spent where it saves most."),
]
LoadBudget = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES|TIMES",
        help="What all synopses may take, such as 8MB: spent where it saves most. A number like 1.2 is --storage.",
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE|BYTES",
        help="What synopses may take that are chosen by default, such as 2% of the data (1% if not given) or 8MB; 0 is "
        "for zone maps alone.",
    ),
]
HtmlFile = Annotated[str | None, typer.Option(metavar="FILE", help="Save the report as a page here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data instead of tables.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's log, and tracebacks of errors.")]
LOCAL = "local[*]"


@contextmanager
def session_for(master: str, conf: list[str] | None, verbose: bool) -> Iterator[SparkSession]:
    """A session for one command, in which errors and warnings are sentences."""
    settings = pairs("--conf", conf)
    with plain_messages(verbose), ExitStack() as until_done:
        with progress("Starting Spark"):
            spark = until_done.enter_context(spark_session(master, settings, loud=verbose))
        until_done.callback(sidestep.disable, spark)
        yield spark


def recipe_text(synopsis: list[str] | None) -> str | None:
    """The values of ``--synopsis`` as one text."""
    return ",".join(synopsis) if synopsis else None


def divide_budget(budget: str | None, storage: float | None) -> tuple[str | None, float | None]:
    """The budget for synopses and that for storage: a number like 1.2, without a unit, is a multiple, not bytes.

    >>> divide_budget("1.2", None), divide_budget("8MB", None), divide_budget("1.5MB", 1.2), divide_budget("17", None)
    ((None, 1.2), ('8MB', None), ('1.5MB', 1.2), ('17', None))
    """
    if storage is None and budget is not None and re.fullmatch(r"\d+\.\d+", budget.strip()):
        return None, float(budget)
    return budget, storage


def others(tables: dict[str, str], table: str) -> dict[str, str]:
    """The tables of ``--table`` but for the one that the command is about."""
    return {name: path for name, path in tables.items() if name != table}


def register(spark: SparkSession, tables: dict[str, str]) -> None:
    """Make tables known to SQL by their names."""
    for name, path in tables.items():
        sidestep.read(spark, path).createOrReplaceTempView(name)


def pairs(option: str, values: list[str] | None) -> dict[str, str]:
    """The values of a repeatable ``NAME=VALUE`` option."""
    named = {}
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise typer.BadParameter(f"{value!r} is not of the form NAME=VALUE.", param_hint=option)
        named[name] = rest
    return named
