"""The commands about indexes, queries and logs, each a few calls of the public API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame
from rich.text import Text

import sidestep
from sidestep.cli.messages import plain_messages, progress, query_progress
from sidestep.cli.options import (
    LOCAL,
    AsJson,
    Budget,
    Conf,
    Dialect,
    HtmlFile,
    IndexDir,
    Limit,
    LogPath,
    Master,
    QueryText,
    SynopsisText,
    TablePath,
    TablePaths,
    Verbose,
    app,
    others,
    pairs,
    recipe_text,
    register,
    session_for,
)
from sidestep.cli.show import (
    console,
    print_json,
    print_report,
    print_rows,
    print_status,
    reads_table,
    scans_read,
    status_data,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sidestep {sidestep.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def sidestep_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Spark queries that read only what they need."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def index(
    table: TablePath,
    column: Annotated[list[str] | None, typer.Option(help="Index this column only. Repeatable.")] = None,
    index_dir: IndexDir = None,
    footers: Annotated[
        bool, typer.Option(help="Trust the statistics in Parquet footers where their writer is known to be right.")
    ] = True,
    synopsis: SynopsisText = None,
    budget: Budget = None,
    limit: Limit = None,
    log: Annotated[str | None, typer.Option(metavar="LOG", help="Choose synopses for the queries of this log.")] = None,
    dialect: Dialect = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Choose and make everything anew, of all files.")] = False,
    tables: TablePaths = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Index the files of a table that have no up-to-date index entry yet."""
    named = pairs("--table", tables)
    path = named.get(table, table)
    with session_for(master, conf, verbose) as spark:
        new = 0
        with progress(f"Indexing {path}") as show:

            def count(step: sidestep.Step) -> None:
                nonlocal new
                new = step.total if step.unit == "files" else new
                show(step)

            indexed = sidestep.index(
                spark,
                path,
                columns=column,
                index_dir=index_dir,
                footers=footers,
                synopses=recipe_text(synopsis),
                budget=budget,
                limit=limit,
                log=log,
                name=table if table in named else None,
                tables=others(named, table),
                dialect=dialect,
                rebuild=rebuild,
                progress=count,
            )
        if json:
            print_json(status_data(indexed))
            return
        out = console()
        out.print(f"Indexed {new:,} file{'s' * (new != 1)}." if new else "Every file was indexed already.")
        print_status(out, indexed, columns=False)


@app.command()
def status(
    table: TablePath,
    log: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="Today's queries: how far have they moved from those it was laid out for?"),
    ] = None,
    dialect: Dialect = None,
    index_dir: IndexDir = None,
    tables: TablePaths = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show how much of a table is indexed, what each column has, what that takes and what it is good for."""
    named = pairs("--table", tables)
    path = named.get(table, table)
    with ExitStack() as until_done:
        options: dict[str, Any] = {}
        spark = None
        if log is None:
            until_done.enter_context(plain_messages(verbose))
        else:
            spark = until_done.enter_context(session_for(master, conf, verbose))
            name = table if table in named else None
            options = {"log": log, "name": name, "tables": others(named, table), "dialect": dialect}
        state = sidestep.status(spark, path, index_dir=index_dir, **options)
        if json:
            print_json(status_data(state))
        else:
            print_status(console(), state)


@app.command()
def doctor(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Paths of tables to look at as well.")
    ] = None,
    html: HtmlFile = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Look at all that sidestep needs: versions, Java, Spark, workers, credentials, tables; say what to do."""
    with session_for(master, conf, verbose) as spark, progress("Looking"):
        diagnosis = sidestep.doctor(spark, *(tables or ()), index_dir=index_dir)
    if html:
        diagnosis.save_html(html)
    if json:
        print_json(diagnosis.to_dict())
    else:
        console().print(diagnosis)
    if not diagnosis.well:
        raise typer.Exit(1)


@app.command()
def explain(
    sql: QueryText,
    tables: TablePaths = None,
    html: HtmlFile = None,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show what a query would skip, and why it would not skip more, without running it."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark, sidestep.enable(spark, index_dir=index_dir):
        register(spark, named)
        explanation = sidestep.explain(sql, spark)
        if html:
            explanation.save_html(html)
        if json:
            print_json(explanation.to_dict())
        else:
            console().print(explanation)
            if html:
                console().print(Text(f"Wrote {html}", "bold"))


@app.command("sql")
def run_sql(
    sql: QueryText,
    tables: TablePaths = None,
    limit: Annotated[int, typer.Option(min=0, help="Print this many rows; 0 for all. The query runs whole.")] = 20,
    off: Annotated[bool, typer.Option("--off", help="Run it without sidestep, to compare.")] = False,
    index_dir: IndexDir = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run a query; print its rows, and what was read for them. MERGE, DELETE and UPDATE change Delta tables."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark:
        if not off:
            sidestep.enable(spark, index_dir=index_dir)
        register(spark, named)
        with query_progress(spark):
            start = time.perf_counter()
            df = spark.sql(sql) if off else sidestep.sql(spark, sql, tables=named, index_dir=index_dir)
            if not isinstance(df, DataFrame):
                print_report(df, json)
                return
            # Rows come as Arrow: one job, all partitions at once, and no Python object per value that is not printed.
            result = df.toArrow()
            seconds = time.perf_counter() - start
        shown = result.slice(0, limit) if limit else result
        rows: list[Sequence[Any]] = list(zip(*(column.to_pylist() for column in shown.columns), strict=True))
        reads = scans_read(df)
        if json:
            types = [{"name": field.name, "type": field.dataType.simpleString()} for field in df.schema.fields]
            print_json(
                {
                    "columns": types,
                    "rows": rows,
                    "row_count": result.num_rows,
                    "seconds": round(seconds, 3),
                    "enabled": not off,
                    "scans": [asdict(read) for read in reads],
                }
            )
            return
        out = console()
        if df.columns:
            print_rows(out, df.columns, rows)
        left_out = f" (the first {len(rows):,} shown)" if len(rows) < result.num_rows else ""
        many = f"{result.num_rows:,} row{'s' * (result.num_rows != 1)}{left_out}"
        out.print(Text(f"{many} in {seconds:.2f} s, sidestep {'off' if off else 'on'}", "bold"))
        if reads:
            out.print(reads_table(reads))


@app.command()
def analyze(
    log: LogPath,
    tables: TablePaths = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Save the features here.")] = None,
    html: HtmlFile = None,
    num_features: Annotated[
        int | None,
        typer.Option(min=1, help="Features per table; by default what would have served later queries best."),
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, help="T: the least number of queries that a feature must subsume.")
    ] = None,
    dates: Annotated[bool, typer.Option("--dates", help="Let predicates on dates and times become features.")] = False,
    negations: Annotated[bool, typer.Option("--negations", help="Let negations become features.")] = False,
    dialect: Dialect = None,
    master: Master = LOCAL,
    conf: Conf = None,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Find what the queries of a log have in common: features of each table, and how well they serve."""
    named = pairs("--table", tables)
    with session_for(master, conf, verbose) as spark:
        with progress(f"Analyzing {log}") as show:
            analysis = sidestep.analyze(
                spark,
                log,
                tables=named,
                num_features=num_features,
                threshold=threshold,
                dates=dates,
                negations=negations,
                dialect=dialect,
                progress=show,
            )
        written = [str(path) for path in analysis.save_features(out)] if out else []
        if html:
            analysis.save_html(html)
            written.append(html)
        if json:
            print_json({**analysis.to_dict(), "written": written})
            return
        console().print(analysis)
        for path in written:
            console().print(Text(f"Wrote {path}", "bold"))
