"""What do queries ask for? Log readers, queries as sets of predicates, and the features that represent them."""

from sidestep.workload.analysis.analysis import Analysis, TableAnalysis, analyze, analyze_table, to_json
from sidestep.workload.analysis.views import page, save_page, show
from sidestep.workload.canonical import canonical
from sidestep.workload.factor import Factored, factor
from sidestep.workload.features.eligible import Eligibility
from sidestep.workload.features.extract import Augmented, Options, augment, extract, extract_from
from sidestep.workload.features.feature_set import Feature, FeatureDiff, FeatureSet, diff
from sidestep.workload.features.mining import Miner, Transaction, closed_sets
from sidestep.workload.features.quality import Curve, Drift, commonality, coverage, drift, stability, subsumed_by
from sidestep.workload.features.tune import Choice, Score, choose
from sidestep.workload.logs.entries import BadLine, Entry, split_statements
from sidestep.workload.logs.read import READERS, Log, LogReader, fold, read_log
from sidestep.workload.query import Failure, JoinUse, Query, Statement, TableUse, Workload
from sidestep.workload.table import Item, Scan, TableWorkload, of_table, tables_of

__all__ = [
    "READERS",
    "Analysis",
    "Augmented",
    "BadLine",
    "Choice",
    "Curve",
    "Drift",
    "Eligibility",
    "Entry",
    "Factored",
    "Failure",
    "Feature",
    "FeatureDiff",
    "FeatureSet",
    "Item",
    "JoinUse",
    "Log",
    "LogReader",
    "Miner",
    "Options",
    "Query",
    "Scan",
    "Score",
    "Statement",
    "TableAnalysis",
    "TableUse",
    "TableWorkload",
    "Transaction",
    "Workload",
    "analyze",
    "analyze_table",
    "augment",
    "canonical",
    "choose",
    "closed_sets",
    "commonality",
    "coverage",
    "diff",
    "drift",
    "extract",
    "extract_from",
    "factor",
    "fold",
    "of_table",
    "page",
    "read_log",
    "save_page",
    "show",
    "split_statements",
    "stability",
    "subsumed_by",
    "tables_of",
    "to_json",
]
