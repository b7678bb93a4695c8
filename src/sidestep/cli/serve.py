"""The command that opens the console: a page over a folder of tables and logs."""

from __future__ import annotations

import importlib
import secrets
import webbrowser
from typing import Annotated, Any

import typer
from rich.text import Text

from sidestep import SidestepError
from sidestep.cli.messages import plain_messages, sentence
from sidestep.cli.options import LOCAL, Conf, Master, TablePaths, Verbose, app, pairs, session_for
from sidestep.cli.show import console

PORT = 8642


@app.command()
def serve(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="FOLDER", help="Folders of tables and logs; without one, this folder."),
    ] = None,
    tables: TablePaths = None,
    log: Annotated[list[str] | None, typer.Option(metavar="LOG", help="A log that lies elsewhere. Repeatable.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; any but 127.0.0.1 needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 for any that is free.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(envvar="SIDESTEP_TOKEN", help="A secret that the page asks for; 'new' makes one."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="How long a query may run.")] = 120.0,
    rows: Annotated[int, typer.Option(min=1, max=100_000, help="Rows of a result that are shown.")] = 1_000,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    master: Master = LOCAL,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """Open the console: see the workload, tune the layout, watch the skipping."""
    with plain_messages(verbose):
        server, queries, workspaces = (_console_part(name) for name in ("server", "queries", "workspace"))
        secret = secrets.token_urlsafe(24) if token == "new" else token
        named = pairs("--table", tables)
        workspace = workspaces.Workspace(folders or ([] if named else ["."]), named, log or ())
        listener = server.bind(host, port, secret)
    with listener, session_for(master, conf, verbose) as spark:
        out = console()
        out.print(Text("sidestep console: ", "bold") + Text(server.address(listener, host, secret)), soft_wrap=True)
        out.print(Text(f"{len(workspace.tables):,} tables and {len(workspace.logs):,} logs; Ctrl-C ends it."))
        if open_page:
            webbrowser.open(server.address(listener, host, secret))
        limits = queries.Limits(rows=rows, seconds=seconds)
        server.serve(spark, workspace, listener, host=host, token=secret, limits=limits, describe=sentence)


def _console_part(name: str) -> Any:
    """A module of the console, which is loaded by this command alone and may not be installed."""
    try:
        return importlib.import_module(f"sidestep.console.{name}")
    except ModuleNotFoundError as problem:
        if problem.name is not None and problem.name.startswith("sidestep"):
            raise
        raise SidestepError(
            f"The console needs {problem.name}, which is not installed: pip install 'sidestep[console]'."
        ) from problem
