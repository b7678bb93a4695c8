"""What is on disk? The files of a table, the blocks in them, and the index that remembers what those contain."""

from sidestep.store.index.index_file import index_folder
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.location import Location, locate
from sidestep.store.parquet.blocks import block_summaries, with_layout
from sidestep.store.parquet.scan import Sources
from sidestep.store.sidecars.layout import load_features, save_features
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.read import read_snapshot
from sidestep.store.upkeep.compact import append_blocks, compact
from sidestep.store.upkeep.status import IndexStatus, status
from sidestep.store.upkeep.update import missing_files, settle, trusted_files, update_index

__all__ = [
    "DataFile",
    "IndexStatus",
    "Location",
    "Snapshot",
    "Sources",
    "TableIndex",
    "append_blocks",
    "block_summaries",
    "compact",
    "index_folder",
    "load_features",
    "locate",
    "missing_files",
    "open_index",
    "read_snapshot",
    "save_features",
    "settle",
    "status",
    "trusted_files",
    "update_index",
    "with_layout",
]
