"""Which Delta tables sidestep may write to: those where a file is no more than its rows.

Some features oblige every writer to do something for them: keep a constraint, compute a column, number the rows. A
writer that does not know them spoils the table for all others, so such tables are refused by name before any work.
What matters is what a table uses, not what its protocol would allow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.store.location import Location
from sidestep.store.snapshots.delta import open_delta, read_delta

_KNOWN = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "identityColumns",
        "allowColumnDefaults",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Writer features that ask nothing of this writer, or that are checked for use below or when the table is read."""
_OF_COLUMNS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "identity values",
    "CURRENT_DEFAULT": "a default value",
}


def check_writable(location: Location, *, removes_rows: bool = False) -> None:
    """Raise :class:`UnsupportedTable` with the reason if sidestep must not write to the Delta table at ``location``.

    ``removes_rows`` is for writes that delete or change rows, which append-only tables forbid; laying the same rows out
    anew they allow.
    """
    snapshot = read_delta(location)  # refuses deletion vectors, column mapping, and what only readers must know
    try:
        table = open_delta(location, snapshot.version)
    except (DeltaError, OSError) as error:
        raise SidestepError(f"Cannot read the Delta log of {location.uri}: {error}") from error
    refuse_unwritable(location, table, removes_rows=removes_rows)


def refuse_unwritable(location: Location, table: DeltaTable, *, removes_rows: bool) -> None:
    """The same for a table that was read already."""
    for reason in _reasons(table, removes_rows):
        raise UnsupportedTable(
            f"sidestep does not write to the Delta table {location.uri}: {reason}. Write to it with the program that "
            "made it; sidestep can still index it and skip what queries need not read."
        )


def _reasons(table: DeltaTable, removes_rows: bool) -> Iterator[str]:
    protocol = table.protocol()
    if protocol.min_writer_version > 7:
        yield f"it asks for writer version {protocol.min_writer_version}"
    unknown = sorted(set(protocol.writer_features or ()) - _KNOWN)
    if unknown:
        yield f"it uses the feature {', '.join(unknown)}"
    settings = table.metadata().configuration
    if _on(settings.get("delta.enableChangeDataFeed")):
        yield "it keeps a change data feed (delta.enableChangeDataFeed)"
    if removes_rows and _on(settings.get("delta.appendOnly")):
        yield "it is append-only (delta.appendOnly), so no rows may be deleted or changed"
    constraints = [
        name.removeprefix("delta.constraints.") for name in settings if name.startswith("delta.constraints.")
    ]
    if constraints:
        yield f"it has the constraint {', '.join(sorted(constraints))}"
    for field in json.loads(table.schema().to_json())["fields"]:
        for key, what in _OF_COLUMNS.items():
            if key in field["metadata"]:
                yield f"its column {field['name']} has {what} ({key})"


def _on(setting: str | None) -> bool:
    return (setting or "").lower() == "true"
