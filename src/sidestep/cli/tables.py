"""The commands that lay tables out and keep them so, each a few calls of the public API."""

from __future__ import annotations

from typing import Annotated

import typer

import sidestep
from sidestep.cli.messages import plain_messages, progress
from sidestep.cli.options import (
    LOCAL,
    AsJson,
    Conf,
    Dialect,
    HtmlFile,
    IndexDir,
    Limit,
    LoadBudget,
    LogPath,
    Master,
    SynopsisText,
    TablePath,
    TablePaths,
    Verbose,
    app,
    divide_budget,
    others,
    pairs,
    recipe_text,
    register,
    session_for,
)
from sidestep.cli.show import console, print_json, print_report

By = Annotated[
    str | None,
    typer.Option(help="Lay out each value of this column or expression on its own: date_trunc('MONTH', day), say."),
]
NumFeatures = Annotated[
    int | None, typer.Option(min=1, help="How many features; by default what would have served later queries best.")
]
Family = Annotated[
    str | None,
    typer.Option(
        help="Choose among layouts of this family alone: as is, sorted, z-order, features, cuts, cuts and features."
    ),
]
MinSize = Annotated[int | None, typer.Option(min=1, help="The least number of rows in a block.")]
Where = Annotated[
    str, typer.Option(help="The condition, in Spark SQL; in subqueries, the table is target, others are by --table.")
]


@app.command()
def advise(
    log: LogPath,
    table: Annotated[
        list[str],
        typer.Option(
            "--table",
            "-t",
            metavar="[NAME=]PATH",
            help="The table: its path, and what the log calls it. Repeated, others that the log names.",
        ),
    ],
    dialect: Dialect = None,
    by: By = None,
    num_features: NumFeatures = None,
    min_size: MinSize = None,
    family: Family = None,
    sample_rows: Annotated[
        int | None, typer.Option(min=1_000, help="How many rows to look at; by default enough for the table's blocks.")
    ] = None,
    storage: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="Weigh copies of cells too, within so many times those of the table."),
    ] = None,
    test_log: Annotated[
        str | None, typer.Option(metavar="LOG", help="Estimate for the queries of this log instead.")
    ] = None,
    html: HtmlFile = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Estimate from a sample what the queries of a log would read under other layouts, without changing anything."""
    (name, path), named = _name_and_path(table[0]), pairs("--table", table[1:])
    with session_for(master, conf, verbose) as spark, progress("Estimating") as show:
        advice = sidestep.advise(
            spark,
            log,
            path,
            name=name,
            tables=named,
            dialect=dialect,
            by=by,
            num_features=num_features,
            min_size=min_size,
            family=family,
            sample_rows=sample_rows,
            storage=storage,
            test_log=test_log,
            index_dir=index_dir,
            progress=show,
        )
    if html:
        advice.save_html(html)
    if json:
        print_json(advice.to_dict())
    else:
        console().print(advice)


@app.command()
def load(
    source: TablePath,
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="The folder for the result; without it, a Delta table is done in place."),
    ] = None,
    log: Annotated[str | None, typer.Option(metavar="LOG", help="The log of queries to lay the table out for.")] = None,
    dialect: Dialect = None,
    features: Annotated[
        str | None, typer.Option(metavar="FILE", help="Features that `sidestep analyze --out` saved, instead of a log.")
    ] = None,
    by: By = None,
    num_features: NumFeatures = None,
    min_size: MinSize = None,
    order: Annotated[
        list[str] | None, typer.Option(help="Group by features, and keep blocks narrow in this column.")
    ] = None,
    family: Family = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="sop: rows in blocks, the default; gsop: column groups, each with a row order of its own; gsop-r: the "
            "same with copies of some cells; auto: what the log's later queries would rather have."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,…", help="With --layout gsop, the columns of one group; repeated, of others."),
    ] = None,
    storage: Annotated[
        float | None,
        typer.Option(metavar="TIMES", help="Cells that may be stored, as a multiple of the table's: 1.2, say."),
    ] = None,
    synopsis: SynopsisText = None,
    budget: LoadBudget = None,
    limit: Limit = None,
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Lay a table out by its workload: rows that queries skip together come to lie together."""
    named = pairs("--table", tables)
    budget, storage = divide_budget(budget, storage)
    with session_for(master, conf, verbose) as spark, progress("Laying out") as show:
        report = sidestep.load(
            spark,
            named.get(source, source),
            None if target is None else named.get(target, target),
            name=source if source in named else None,
            features=features,
            log=log,
            tables=others(named, source),
            dialect=dialect,
            by=by,
            num_features=num_features,
            min_size=min_size,
            order=order,
            family=family,
            layout=layout,
            groups=None if group is None else [[name.strip() for name in each.split(",")] for each in group],
            storage=storage,
            synopses=recipe_text(synopsis),
            budget=budget,
            limit=limit,
            index_dir=index_dir,
            progress=show,
        )
    print_report(report, json)


@app.command()
def denormalize(
    log: LogPath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The folder for the denormalized table.")],
    fact: Annotated[str, typer.Option(help="The table each row of which becomes a row of the result.")],
    tables: Annotated[
        list[str],
        typer.Option("--table", "-t", metavar="NAME=PATH", help="A table, and what the log calls it. Repeatable."),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE=COLUMN,…", help="The key of a table, where it is not to be guessed. Repeatable."),
    ] = None,
    layout: Annotated[
        str, typer.Option(help="gsop: column groups, each with a row order of its own; sop: rows in blocks.")
    ] = "gsop",
    dialect: Dialect = None,
    min_size: MinSize = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be made, and write nothing.")] = False,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Join a fact table with what the log's queries join it with, and lay the result out for them to read instead."""
    keys = {table: columns.split(",") for table, columns in pairs("--key", key).items()}
    with session_for(master, conf, verbose) as spark, progress("Denormalizing") as show:
        report = sidestep.denormalize(
            spark,
            log,
            pairs("--table", tables),
            target,
            fact=fact,
            keys=keys or None,
            layout=layout,
            dialect=dialect,
            min_size=min_size,
            dry_run=dry_run,
            index_dir=index_dir,
            progress=show,
        )
    if json:
        print_json(report.to_dict())
    else:
        console().print(str(report), highlight=False, markup=False)


@app.command()
def append(
    table: TablePath,
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Path of a Parquet folder or Delta table to add.")],
    synopsis: SynopsisText = None,
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Add rows to a table, in new blocks that can be skipped at once and wait to be organized."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark, progress("Adding rows") as show:
        report = sidestep.append(
            spark,
            named.get(table, table),
            named.get(rows, rows),
            synopses=recipe_text(synopsis),
            index_dir=index_dir,
            progress=show,
        )
    print_report(report, json)


@app.command()
def delete(
    table: TablePath,
    where: Where,
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Delete the rows for which a condition is true, rewriting only the files that hold some."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark, progress("Deleting rows") as show:
        register(spark, others(named, table))
        report = sidestep.delete(spark, named.get(table, table), where, index_dir=index_dir, progress=show)
    print_report(report, json)


@app.command()
def update(
    table: TablePath,
    where: Where,
    assignments: Annotated[
        list[str], typer.Option("--set", metavar="COLUMN=SQL", help="The new value of a column. Repeatable.")
    ],
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Change the rows for which a condition is true, rewriting only the files that hold some."""
    named, values = pairs("--table", tables), pairs("--set", assignments)
    with session_for(master, conf, verbose) as spark, progress("Changing rows") as show:
        register(spark, others(named, table))
        report = sidestep.update(spark, named.get(table, table), values, where, index_dir=index_dir, progress=show)
    print_report(report, json)


@app.command()
def optimize(
    table: TablePath,
    features: Annotated[
        str | None, typer.Option(metavar="FILE", help="Lay out for these features from now on; old units follow.")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="Today's queries: lay out anew the units for which that is worth it."),
    ] = None,
    dialect: Dialect = None,
    by: By = None,
    where: Annotated[str | None, typer.Option(help="Only files that may hold rows with this condition.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Organize new rows however few they are.")] = False,
    synopsis: SynopsisText = None,
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Organize the rows that have come since a table was laid out; what is organized stays as it is."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark, progress("Organizing") as show:
        report = sidestep.optimize(
            spark,
            named.get(table, table),
            features=features,
            log=log,
            name=table if table in named else None,
            tables=others(named, table),
            dialect=dialect,
            by=by,
            where=where,
            all=every,
            synopses=recipe_text(synopsis),
            index_dir=index_dir,
            progress=show,
        )
    print_report(report, json)


@app.command()
def vacuum(
    table: TablePath,
    hours: Annotated[float, typer.Option(min=0, help="Keep what versions of the last so many hours need.")] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Keep less than the table's retention says.")] = False,
    tables: TablePaths = None,
    index_dir: IndexDir = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Delete files that no recent version of a table needs, and what interrupted jobs left."""
    path = pairs("--table", tables).get(table, table)
    with plain_messages(verbose):
        report = sidestep.vacuum(path, hours=hours, dry_run=dry_run, force=force, index_dir=index_dir)
    print_report(report, json)


def _name_and_path(table: str) -> tuple[str | None, str]:
    """
    >>> _name_and_path("sales=/data/sales"), _name_and_path("/data/day=1/sales")
    (('sales', '/data/sales'), (None, '/data/day=1/sales'))
    """
    name, equals, path = table.partition("=")
    return (name, path) if equals and path and name.isidentifier() else (None, table)
