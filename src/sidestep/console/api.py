"""The JSON API: what the page asks for, each answer a call or two of the public API of sidestep."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from starlette.exceptions import HTTPException

import sidestep
from sidestep import IndexStatus, LogAnalysis, Progress, SidestepError
from sidestep.console.jobs import Job, Jobs
from sidestep.console.queries import Limits, Queries, block_data, table_data
from sidestep.console.workspace import UnknownName, Workspace

MOST_BLOCK_ROWS = 500
MOST_STATEMENTS = 200
POLL_SECONDS, MOST_QUIET = 0.15, 100
"""How often jobs are looked at for whoever listens; after so many looks without news they are told that there is none,
so that a connection that is gone is noticed."""
PLOTLY = "plotly.min.js"
_TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

Name = Annotated[str, Field(min_length=1, max_length=100)]
Rows = Annotated[int, Field(ge=1, le=1_000_000_000)]
Number = Annotated[int, Path(ge=0, le=1_000_000_000)]


class Asked(BaseModel):
    """What all requests have in common: nothing that is not asked for."""

    model_config = ConfigDict(extra="forbid")


class Analyze(Asked):
    """Find what the queries of a log have in common."""

    log: Name
    num_features: Annotated[int, Field(ge=1, le=200)] | None = None
    threshold: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    dates: bool = False
    negations: bool = False
    names: dict[Name, Name] = Field(default_factory=dict, max_length=50)
    """What the log calls a table, where that is not its name here: name in the log to table."""


class OfTable(Asked):
    """Something about one table and the queries of a log."""

    table: Name
    log: Name | None = None
    name: Name | None = None
    """What the log calls the table, if that is not its name here."""


class Advise(OfTable):
    """Estimate what queries would read under other row orders."""

    log: Name
    min_size: Rows | None = None


class WhatIf(OfTable):
    """Estimate what queries would read with other sizes of blocks, columns in groups, and some cells stored twice."""

    log: Name
    min_sizes: Annotated[list[Rows], Field(max_length=12)] | None = None
    budget: Annotated[float, Field(ge=1, le=4)] = 2.0
    """What replicas may take on disk, as a multiple of the table."""


class Load(OfTable):
    """Lay a table out by its workload, as a new table."""

    log: Name
    target: Name
    min_size: Rows | None = None
    num_features: Annotated[int, Field(ge=1, le=200)] | None = None
    layout: Literal["sop", "gsop", "gsop-r"] = "sop"
    storage: Annotated[float, Field(ge=1, le=10)] | None = None
    family: Name | None = None


class Optimize(OfTable):
    """Organize the rows that came since a table was laid out, and with a log the units that are worth it."""


class Index(OfTable):
    """Index the files of a table that are not indexed yet."""

    rebuild: bool = False


class Drift(OfTable):
    """How far the queries of a log have moved from those that a table was laid out for."""

    log: Name


class Select(Asked):
    """Select features once more, from queries that were analyzed before."""

    table: Name
    num_features: Annotated[int, Field(ge=1, le=200)] | None = None
    threshold: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Sql(Asked):
    """A query, and for tables that are to be read from another copy which that is."""

    sql: Annotated[str, Field(min_length=1, max_length=100_000)]
    copies: dict[Name, Name] = Field(default_factory=dict, max_length=20)


class Run(Sql):
    """Run a query; with ``both`` once more without sidestep."""

    both: bool = True


class Console:
    """What the API works on."""

    def __init__(
        self, spark: SparkSession, workspace: Workspace, limits: Limits, describe: Callable[[BaseException], str]
    ) -> None:
        self.spark, self.workspace, self.describe = spark, workspace, describe
        self.jobs, self.queries = Jobs(spark, describe), Queries(spark, limits)

    def close(self) -> None:
        self.jobs.close()
        self.queries.close()

    def tables_for(self, copies: Mapping[str, str]) -> dict[str, str]:
        """Where each table is read from: its own folder, or that of the copy named."""
        paths = self.workspace.paths
        for name, copy in copies.items():
            if not re.fullmatch(r"\w{1,100}", name):
                raise SidestepError(f"{name[:80]!r} is no name of a table.")
            paths[name] = str(self.workspace.table(copy).path)
        return paths

    def tables_of_log(self, names: Mapping[str, str]) -> dict[str, str]:
        """The tables by what a log calls them."""
        return self.workspace.paths | {name: str(self.workspace.table(table).path) for name, table in names.items()}

    def log_options(self, asked: OfTable) -> dict[str, Any]:
        """What a log calls the table that is asked about, and the tables that it may name beside that one."""
        name = asked.name or asked.table
        others = {other: path for other, path in self.workspace.paths.items() if other not in (asked.table, name)}
        return {"name": name, "tables": others}


def make_app(console: Console) -> FastAPI:
    """The API over a console, and the page."""
    app = FastAPI(title="sidestep console", version=sidestep.__version__, docs_url=None, redoc_url=None)
    _add_errors(app, console)
    _add_tables(app, console)
    _add_jobs(app, console)
    _add_queries(app, console)
    _add_page(app)
    return app


def _add_errors(app: FastAPI, console: Console) -> None:
    @app.exception_handler(SidestepError)
    def refuse(request: Request, problem: SidestepError) -> JSONResponse:
        return _error(404 if isinstance(problem, UnknownName) else 400, console.describe(problem))

    @app.exception_handler(PySparkException)
    def refuse_statement(request: Request, problem: PySparkException) -> JSONResponse:
        return _error(400, console.describe(problem))

    @app.exception_handler(HTTPException)
    def not_there(request: Request, problem: HTTPException) -> JSONResponse:
        return _error(problem.status_code, str(problem.detail))

    @app.exception_handler(RequestValidationError)
    def not_understood(request: Request, problem: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in problem.errors()[:5])
        return _error(422, f"The request was not understood: {said}.")

    @app.exception_handler(Exception)
    def failed(request: Request, problem: Exception) -> JSONResponse:
        return _error(500, console.describe(problem))


def _error(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=status)


def _json(data: Any, status: int = 200) -> Response:
    """Plain data as it is: the usual way looks at each of a hundred thousand numbers."""
    return Response(
        json.dumps(data, ensure_ascii=False, allow_nan=False, default=str), status, media_type="application/json"
    )


def _add_tables(app: FastAPI, console: Console) -> None:
    workspace, spark = console.workspace, console.spark

    @app.get("/api/workspace")
    def show_workspace() -> Response:
        """The tables and logs that there are."""
        limits = console.queries.limits
        entries = [
            {"name": one.name, "kind": one.kind, "folder": one.folder, "problem": one.problem}
            for one in (*workspace.tables.values(), *workspace.logs.values())
        ]
        return _json(
            {
                "version": sidestep.__version__,
                "spark": spark.version,
                "folders": [str(folder) for folder in workspace.folders],
                "tables": [one for one in entries if one["kind"] != "log"],
                "logs": [one for one in entries if one["kind"] == "log"],
                "limits": asdict(limits),
            }
        )

    @app.get("/api/tables/{name}")
    def show_table(name: Name) -> Response:
        """What is indexed of a table, what that takes, and what it is good for."""
        return _json(status_data(sidestep.status(spark, workspace.table(name).path)))

    @app.get("/api/tables/{name}/blocks")
    def show_blocks(
        name: Name,
        column: Annotated[list[Name] | None, Query(max_length=20)] = None,
        offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_BLOCK_ROWS)] = 100,
    ) -> Response:
        """Some of a table's blocks, with the least and greatest values of these columns."""
        found = sidestep.blocks(spark, workspace.table(name).path, columns=column or [])
        shown = found.slice(offset, limit)
        return _json({"total": found.num_rows, "offset": offset, **table_data(shown)})


def _add_jobs(app: FastAPI, console: Console) -> None:
    workspace, jobs, spark = console.workspace, console.jobs, console.spark

    def begin(kind: str, about: str, request: Asked, work: Callable[[Progress], Any], data: Any = None) -> Response:
        def run(progress: Progress) -> tuple[Any, dict[str, Any]]:
            try:
                value = work(progress)
                return value, (data or _to_dict)(value)
            finally:
                workspace.forget()

        job = jobs.start(kind, about, request.model_dump(), run)
        return _json(job.to_dict(), 202)

    def find(id: int) -> Job:
        job = jobs.get(id)
        if job is None:
            raise HTTPException(404, f"There is no job {id}: it may be of an earlier run of the console.")
        return job

    @app.post("/api/jobs/analyze", status_code=202)
    def analyze(asked: Analyze) -> Response:
        """Analyze a log."""
        path = str(workspace.log(asked.log).path)
        tables = console.tables_of_log(asked.names)
        options = asked.model_dump(include={"num_features", "threshold", "dates", "negations"})
        return begin(
            "analyze",
            asked.log,
            asked,
            lambda progress: sidestep.analyze(spark, path, tables=tables, progress=progress, **options),
            _analysis_data,
        )

    def begin_for(
        kind: str,
        asked: OfTable,
        act: Callable[..., Any],
        data: Any = None,
        *,
        about: str | None = None,
        **options: Any,
    ) -> Response:
        """Begin a job on a table, and with the queries of a log if one is named."""
        table = str(workspace.table(asked.table).path)
        if asked.log is not None:
            options |= {"log": str(workspace.log(asked.log).path), **console.log_options(asked)}
        about = about or (asked.table if asked.log is None else f"{asked.table} by {asked.log}")
        return begin(kind, about, asked, lambda progress: act(spark, table=table, progress=progress, **options), data)

    @app.post("/api/jobs/advise", status_code=202)
    def advise(asked: Advise) -> Response:
        """Estimate what queries would read under other row orders."""
        return begin_for(
            "advise",
            asked,
            sidestep.advise,
            lambda advice: advice.to_dict() | {"verdict": advice.verdict},
            min_size=asked.min_size,
        )

    @app.post("/api/jobs/what-if", status_code=202)
    def what_if(asked: WhatIf) -> Response:
        """Estimate what queries would read with other sizes of blocks, columns in groups, and replicas."""
        return begin_for("what-if", asked, sidestep.what_if, min_sizes=asked.min_sizes, storage=asked.budget)

    @app.post("/api/jobs/load", status_code=202)
    def load(asked: Load) -> Response:
        """Lay a table out by its workload, as a new table."""
        return begin_for(
            "load",
            asked,
            lambda spark, table, **options: sidestep.load(spark, table, **options),
            lambda report: report.to_dict() | {"text": str(report)},
            about=f"{asked.table} to {asked.target}",
            target=str(workspace.new_table(asked.target)),
            **asked.model_dump(include={"min_size", "num_features", "layout", "storage", "family"}),
        )

    @app.post("/api/jobs/optimize", status_code=202)
    def optimize(asked: Optimize) -> Response:
        """Organize the rows that came since a table was laid out, and with a log the units that are worth it."""
        return begin_for("optimize", asked, sidestep.optimize, lambda report: {"text": str(report)}, all=True)

    @app.post("/api/jobs/index", status_code=202)
    def index(asked: Index) -> Response:
        """Index the files of a table that are not indexed yet."""
        return begin_for("index", asked, sidestep.index, status_data, rebuild=asked.rebuild)

    @app.post("/api/jobs/drift", status_code=202)
    def drift(asked: Drift) -> Response:
        """How far the queries of a log have moved from those that a table was laid out for."""

        def measure(spark: SparkSession, *, progress: Progress, table: str, **options: Any) -> IndexStatus:
            return sidestep.status(spark, table, **options)

        return begin_for("drift", asked, measure, status_data)

    @app.get("/api/jobs")
    def list_jobs() -> Response:
        """All jobs, the newest first."""
        return _json([job.to_dict() for job in jobs.all()])

    @app.get("/api/jobs/events")
    async def events() -> StreamingResponse:
        """Jobs as they change, as server-sent events: first all of them."""

        async def stream() -> AsyncIterator[str]:
            moment, quiet = 0, 0
            yield ": jobs as they change\n\n"
            while not jobs.closed:
                moment, changed = jobs.changes(moment)
                for job in changed:
                    yield f"event: job\ndata: {json.dumps(job.to_dict(), default=str)}\n\n"
                quiet = 0 if changed else quiet + 1
                if quiet % MOST_QUIET == MOST_QUIET - 1:
                    yield ": nothing new\n\n"
                await asyncio.sleep(POLL_SECONDS)

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.get("/api/jobs/{id}")
    def show_job(id: Number) -> Response:
        """A job, and what came of it."""
        return _json(find(id).to_dict(result=True))

    @app.delete("/api/jobs/{id}")
    def stop_job(id: Number) -> Response:
        """Stop a job."""
        job = find(id)
        jobs.stop(job)
        return _json(job.to_dict())

    @app.post("/api/jobs/{id}/select")
    def select(id: Number, asked: Select) -> Response:
        """Select features once more, from the queries of an analysis that is done."""
        analysis = find(id).value
        if not isinstance(analysis, LogAnalysis):
            raise SidestepError("Features are selected from an analysis that is done, and this job is none.")
        table = analysis.table(asked.table).select(asked.num_features, asked.threshold)
        return _json(table.to_dict())


def _add_queries(app: FastAPI, console: Console) -> None:
    queries = console.queries

    @app.post("/api/explain")
    def explain(asked: Sql) -> Response:
        """What a query would skip, block by block, without running it."""
        return _json(queries.explain(asked.sql, console.tables_for(asked.copies)))

    @app.post("/api/run")
    def run(asked: Run) -> Response:
        """Run a query, and once more without sidestep: what was read, and the first rows."""
        return _json(queries.run(asked.sql, console.tables_for(asked.copies), both=asked.both))

    @app.get("/api/explanations/{id}/scans/{scan}/blocks/{block}")
    def show_block(id: Number, scan: Number, block: Number) -> Response:
        """One block of a scan, and the proof that it need not be read."""
        explanation = queries.explanation(id)
        if explanation is None:
            raise HTTPException(404, "This explanation is no longer remembered: explain the query again.")
        blocks = explanation.blocks[scan] if scan < len(explanation.blocks) else None
        if blocks is None or block >= len(blocks):
            raise HTTPException(404, f"The query has no block {block} in a scan {scan}.")
        return _json(block_data(blocks, block))


def _add_page(app: FastAPI) -> None:
    page = {item.name: item.read_bytes() for item in files("sidestep.console").joinpath("page").iterdir()}

    def send(name: str) -> Response:
        ending = name[name.rfind(".") :]
        return Response(page[name], media_type=_TYPES.get(ending, "application/octet-stream"))

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return send("index.html")

    @app.get(f"/page/{PLOTLY}", include_in_schema=False)
    def plotly() -> Response:
        script = files("plotly").joinpath("package_data", PLOTLY).read_bytes()
        return Response(script, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    @app.get("/page/{name}", include_in_schema=False)
    def part(name: str) -> Response:
        if name not in page:
            raise HTTPException(404, "There is no such part of the page.")
        return send(name)


def _to_dict(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = value.to_dict()
    return data


def _analysis_data(analysis: LogAnalysis) -> dict[str, Any]:
    """An analysis with its most frequent statements, and when statements ran."""
    statements = sorted(analysis.statements, key=lambda one: -one.count)[:MOST_STATEMENTS]
    times = sorted(one.time for one in analysis.statements if one.time is not None)
    return analysis.to_dict() | {
        "statements": [{"sql": one.sql[:10_000], "count": one.count} for one in statements],
        "first": times[0] if times else None,
        "last": times[-1] if times else None,
    }


def status_data(status: IndexStatus) -> dict[str, Any]:
    """The state of a table's index as plain data."""
    names = (
        "root format version files bytes indexed_files indexed_bytes indexed_rows blocks index_files index_bytes "
        "stale_files organized_files unorganized_files blocks_with_ids complete advice log_name"
    )
    return {
        **{name: getattr(status, name) for name in names.split()},
        "problems": list(status.problems),
        "notes": list(status.notes),
        "partition_columns": list(status.partition_columns),
        "feature_sets": dict(status.feature_sets),
        "columns": [
            {"name": name, "type": str(kind), "files": status.column_files[name]}
            for name, kind in status.columns.items()
        ],
        "synopses": [
            {
                "column": name,
                "held": [{"text": one.text, "blocks": one.blocks, "bytes": one.bytes} for one in each.held],
                "kept": each.kept,
                "zone_map_kept": each.zone_map_kept,
                "false_positives": each.false_positives,
                "outgrown": each.outgrown,
                "apart": list(each.apart),
            }
            for name, each in status.synopses.items()
        ],
        "tried": [asdict(one) for one in status.tried],
        "drift": None if status.drift is None else status.drift.to_dict() | {"text": str(status.drift)},
    }
