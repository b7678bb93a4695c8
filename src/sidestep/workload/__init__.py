"""What do queries ask for? Log readers, queries as sets of predicates, and the features that represent them."""

from sidestep.workload.analysis.analysis import Analysis, TableAnalysis, analyze, analyze_table, to_json
from sidestep.workload.canonical import canonical
from sidestep.workload.factor import FactoredFilter, factor
from sidestep.workload.features.eligible import Eligibility
from sidestep.workload.features.extract import AugmentedWorkload, ExtractOptions, augment, extract_features
from sidestep.workload.features.feature_set import Feature, FeatureSet
from sidestep.workload.features.mining import Miner, Transaction, closed_sets
from sidestep.workload.features.quality import Curve, commonality, coverage, stability, subsumed_filters
from sidestep.workload.features.tune import Score, TunedParameters, tune_parameters
from sidestep.workload.logs.entries import BadLine, Entry, split_statements
from sidestep.workload.logs.read import READERS, Log, LogReader, read_log
from sidestep.workload.query import Failure, FailureGroup, JoinUse, LoggedQuery, Statement, TableUse, Workload
from sidestep.workload.table import Item, ScanRun, TableWorkload, table_workload, tables_of

__all__ = [
    "READERS",
    "Analysis",
    "AugmentedWorkload",
    "BadLine",
    "Curve",
    "Eligibility",
    "Entry",
    "ExtractOptions",
    "FactoredFilter",
    "Failure",
    "FailureGroup",
    "Feature",
    "FeatureSet",
    "Item",
    "JoinUse",
    "Log",
    "LogReader",
    "LoggedQuery",
    "Miner",
    "ScanRun",
    "Score",
    "Statement",
    "TableAnalysis",
    "TableUse",
    "TableWorkload",
    "Transaction",
    "TunedParameters",
    "Workload",
    "analyze",
    "analyze_table",
    "augment",
    "canonical",
    "closed_sets",
    "commonality",
    "coverage",
    "extract_features",
    "factor",
    "read_log",
    "split_statements",
    "stability",
    "subsumed_filters",
    "table_workload",
    "tables_of",
    "to_json",
    "tune_parameters",
]
