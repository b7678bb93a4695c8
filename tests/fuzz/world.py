"""Tables as data: plain folders, catalog tables, Delta tables, tables laid out by features; files and a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.fuzz.choices import Choices
from tests.fuzz.functions import READERS
from tests.fuzz.values import DELTA, EDGES, GREATEST, INTERVAL, NESTED, SCALARS, literal, quoted, ticked

Numbers = list[int | None]
"""A column of a file, or of some rows: the number that each value stands for, or NULL."""


@dataclass(frozen=True)
class TableSpec:
    """One table as data: what its files hold, how it is kept, and what happened to it."""

    columns: dict[str, str]
    files: list[dict[str, Numbers]]
    form: str = "plain"
    """``plain``: a folder of Parquet files; ``catalog``: the same as a table of the catalog; ``delta``: a Delta
    table of another writer's; ``laid``: laid out by features."""
    row_group: int = 1000
    partition: str | None = None
    """A string column that is in the names of folders instead."""
    synopses: str | None = None
    indexed: int | None = None
    """How many of the files there were when the table was indexed; None is all, 0 is a table that never was."""
    features: list[str] = field(default_factory=list)
    min_size: int = 4
    by: str | None = None
    history: list[list[Any]] = field(default_factory=list)
    """Changes after that, each a verb and what it needs."""
    written: list[dict[str, Any]] = field(default_factory=list)
    """How each file is written, in the words of pyarrow; beyond the end of the list, in no special way."""
    lacking: list[str | None] = field(default_factory=list)
    """A column that each file lacks, as files from before a schema changed do."""
    declared: dict[str, str] = field(default_factory=dict)
    """Types by which a catalog table or a reader calls columns of the files, where that is not their own."""
    infer: bool = False
    """Whether Spark is left to find out the schema of a plain folder."""

    def schema(self, text: bool = True) -> str:
        """The columns with their types, as Spark reads them."""
        kinds = {**self.columns, **self.declared} if text else self.columns
        return ", ".join(f"{ticked(name)} {kind}" for name, kind in kinds.items())


@dataclass(frozen=True)
class WorldSpec:
    """Tables by name, and the settings of the session in which they were made."""

    tables: dict[str, TableSpec]
    settings: dict[str, str] = field(default_factory=dict)
    functions: dict[str, list[Any]] = field(default_factory=dict)
    """Python functions by name, each as how it reads a file and the number that is in it."""
    theme: str = "queries"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorldSpec:
        tables = {name: TableSpec(**table) for name, table in data["tables"].items()}
        return cls(tables, dict(data["settings"]), dict(data.get("functions", {})), data.get("theme", "queries"))


THEMES = (
    "correlated",
    "moments",
    "drift",
    "flips",
    "writes",
    "names",
    "functions",
    "again",
    "correlated",
    "moments",
    "queries",
    "queries",
)
"""What worlds are about, in turn: each is likely to find what the others find by luck alone."""

MEANINGS: dict[str, tuple[str, str]] = {
    "spark.sql.session.timeZone": ("UTC", "America/Los_Angeles"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.legacy.castComplexTypesToString.enabled": ("false", "true"),
    "spark.sql.legacy.negativeIndexInArray": ("false", "true"),
    "spark.sql.legacy.sizeOfNull": ("false", "true"),
    "spark.sql.legacy.emptyStringInSplit": ("false", "true"),
    "spark.sql.legacy.nullInEmptyListBehavior": ("false", "true"),
    "spark.sql.legacy.scalarSubqueryCountBugBehavior": ("false", "true"),
    "spark.sql.legacy.duplicateBetweenInput": ("false", "true"),
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "LEGACY"),
    "spark.sql.legacy.literal.pickMinimumPrecision": ("true", "false"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.readSideCharPadding": ("true", "false"),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "LEGACY"),
    "spark.sql.parquet.int96RebaseModeInRead": ("CORRECTED", "LEGACY"),
}
"""Settings that change what an expression or a file means: the first value of each is what tests have by default."""
DRIFTING = (
    "spark.sql.legacy.castComplexTypesToString.enabled",
    "spark.sql.legacy.emptyStringInSplit",
    "spark.sql.session.timeZone",
)
"""Those that change the value of some feature below."""
PLANNING: dict[str, tuple[str, str]] = {
    "spark.sql.adaptive.enabled": ("false", "true"),
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "-1"),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": ("true", "false"),
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ("true", "false"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.parquet.filterPushdown": ("true", "false"),
    "spark.sql.parquet.pushdown.inFilterThreshold": ("10", "0"),
    "spark.sql.cbo.enabled": ("false", "true"),
    "spark.sql.files.maxPartitionBytes": ("134217728", "1000"),
    "spark.sidestep.induced": ("true", "false"),
    "spark.sidestep.selectors": ("true", "false"),
    "spark.sidestep.selectors.leastGain": ("0", "4"),
    "spark.sidestep.selectors.mostTouched": ("1", "0.5"),
}
"""Settings that change how a query is planned, and never what it gives."""
FAST: dict[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sidestep.induced.seconds": "60",
    "spark.sidestep.selectors.leastBytes": "0",
    "spark.sidestep.selectors.leastGain": "0",
    "spark.sidestep.selectors.mostTouched": "1",
}
"""For small tables: compiling a query takes longer than running it. And what is induced must not hang on the clock."""

FEATURES: tuple[tuple[str, str], ...] = (
    ("struct<a:int,b:string>", "CAST({c} AS STRING) LIKE '[1%'"),
    ("struct<a:int,b:string>", "CAST({c} AS STRING) LIKE '{{1%'"),
    ("map<string,int>", "CAST({c} AS STRING) LIKE '[k1%'"),
    ("map<string,int>", "CAST({c} AS STRING) LIKE '{{k1%'"),
    ("string", "element_at(split({c}, '', 2), -1) > 'k'"),
    ("timestamp", "hour({c}) < 9"),
    ("timestamp", "CAST({c} AS STRING) LIKE '%-01 %'"),
    ("array<int>", "CAST({c} AS STRING) LIKE '%, null%'"),
    ("int", "{c} < {v}"),
    ("string", "{c} LIKE '%01%'"),
    ("struct<a:int,b:string>", "CAST({c} AS STRING) LIKE '%s1%'"),
    ("date", "dayofweek({c}) = 3"),
    ("int", "{c} % 3 = 1"),
    ("string", "upper({c}) = 'K011'"),
)
"""What a feature may say of a column of a type; ``{v}`` is a constant of it."""
SYNOPSES = (None, None, "range-set:2", "bloom", "grt:8", "gap-histogram:2", "range-set:3+bloom", "values", "values:3")
ODD_NAMES = ("_block", "a b", "select", "Größe", "x.y", "c`d", "A")
"""Names that users give their columns."""


def draw_world(choices: Choices, theme: str = "queries") -> WorldSpec:
    """One to four tables."""
    changed: dict[str, str] = {}
    if choices.happens(0.5):
        changed = {name: values[1] for name, values in MEANINGS.items() if choices.happens(0.15)}
    forms: tuple[str, ...]
    match theme:
        case "correlated":
            count = 1 + choices.below(2)
            forms = ("plain",)
        case "drift" | "functions" | "writes":
            count, forms = 1, ("laid",)
            if theme == "drift":
                changed = {name: MEANINGS[name][1] for name in DRIFTING if choices.happens(0.5)}
            elif theme == "functions":
                changed = {}  # or what is known of functions under other settings is not asked for at all
        case "again":
            count, forms = 1, ("delta",)
        case "names":
            count, forms = 1, ("plain", "plain", "plain", "plain", "delta", "laid")
        case "moments":
            count, forms = 2, ("plain", "plain", "plain", "plain", "plain", "delta", "laid")
        case "flips":
            count, forms = 1 + choices.below(2), ("plain", "plain", "laid")
        case _:
            count, forms = 1 + choices.below(4), ("plain", "plain", "plain", "catalog", "plain", "laid", "delta")
    functions: dict[str, list[Any]] = {}
    if theme == "functions":
        functions = {f"u{place}": [reader, choices.between(10, GREATEST)] for place, reader in enumerate(READERS)}
    drawn = [choices.among(forms) for _ in range(count)]
    if theme == "moments":
        drawn[-1] = "plain"  # files of other tables do not change
    tables = {
        f"t{number}": _draw_table(choices, f"t{number}", form, theme, list(functions))
        for number, form in enumerate(drawn)
    }
    return WorldSpec(tables, changed, functions, theme)


def _draw_kinds(choices: Choices, form: str, theme: str) -> list[str]:
    if theme == "drift":
        return ["int", *dict.fromkeys(choices.among([kind for kind, _ in FEATURES[:7]]) for _ in range(3))]
    kinds = ["int", choices.among(("int", "bigint", "string", "date"))]
    kinds += [
        choices.among(SCALARS if form in ("plain", "catalog") else DELTA)
        for _ in range(choices.below(2 if theme == "moments" else 4))
    ]
    if theme not in ("correlated", "moments", "flips") and choices.happens(0.2):
        kinds.append(choices.among(NESTED))
    return kinds


def _draw_table(choices: Choices, name: str, form: str, theme: str, functions: Sequence[str]) -> TableSpec:
    kinds = _draw_kinds(choices, form, theme)
    columns = {f"{name}_{place}": kind for place, kind in enumerate(kinds)}
    if theme == "names":
        odd_names = [choices.among(ODD_NAMES), "_block" if choices.happens(0.6) else choices.among(ODD_NAMES)]
        columns |= {column: choices.among(("int", "bigint")) for column in odd_names}
    if form != "plain" and form != "catalog":
        columns = {column: kind for column, kind in columns.items() if kind != INTERVAL}
    least = 3 if theme in ("moments", "correlated", "functions", "drift") else 1
    files = [_draw_file(choices, columns) for _ in range(choices.between(least, 7))]
    partition, declared = None, {}
    if form in ("plain", "catalog"):
        declared = {column: kind for column, kind in columns.items() if kind == INTERVAL}
        declared |= {column: "bigint" for column, kind in columns.items() if kind == EDGES}
    if form == "plain" and choices.happens(0.0 if theme == "moments" else 0.15):
        partition = next((column for column, kind in columns.items() if kind == "string"), None)
    if form == "catalog":
        words = ("string", "varchar(60)", "char(45)", "string collate utf8_lcase")
        declared |= {column: choices.among(words) for column, kind in columns.items() if kind == "string"}
    # A history takes time to make: it is left to the worlds that are about it.
    told = form != "plain" and theme in ("queries", "writes", "names", "again")
    rarely = 0.0 if theme == "moments" else 0.2
    odd = form in ("plain", "catalog") and theme not in ("names", "moments", "correlated")
    return TableSpec(
        columns,
        files,
        form,
        row_group=1 if theme == "flips" else choices.among((1000, 3)),
        partition=partition,
        synopses=choices.among(SYNOPSES),
        indexed=choices.among((None, None, None, None, None, 0, 1, 3))
        if form != "laid" and theme == "queries"
        else None,
        features=_draw_features(choices, columns, theme, functions) if form == "laid" else [],
        min_size=choices.between(1, 3 if theme in ("writes", "functions") else 8),
        by=f"{name}_0 % 3" if choices.happens(0.5) else None,
        history=_draw_history(choices, name, columns) if choices.happens(1.0 if told else rarely) else [],
        written=[_draw_way(choices) for _ in files] if odd and choices.happens(0.4) else [],
        lacking=[_draw_lacking(choices, columns, partition) for _ in files] if odd and choices.happens(0.2) else [],
        declared=declared,
        infer=form == "plain" and not declared and choices.happens(0.15),
    )


def _draw_features(choices: Choices, columns: Mapping[str, str], theme: str, functions: Sequence[str]) -> list[str]:
    features = []
    for kind, text in FEATURES[:7] if theme == "drift" else FEATURES:
        of_kind = [column for column, type in columns.items() if type == kind]
        if of_kind and choices.happens(0.8 if theme == "drift" else 0.4):
            column = quoted(choices.among(of_kind))
            features.append(text.format(c=column, v=literal(kind, choices.below(GREATEST))))
    whole = next(column for column, kind in columns.items() if kind == "int")
    return features + [f"{function}({whole})" for function in functions]


def _draw_way(choices: Choices) -> dict[str, Any]:
    """How a file is written: with or without statistics and dictionaries, as older writers do."""
    way: dict[str, Any] = {}
    if choices.happens(0.3):
        way["write_statistics"] = False
    if choices.happens(0.4):
        way["use_dictionary"] = False
    if choices.happens(0.3):
        way["use_deprecated_int96_timestamps"] = True
    if choices.happens(0.2):
        way["data_page_version"] = "2.0"
    if choices.happens(0.2):
        way["write_page_index"] = True
    if choices.happens(0.2):
        way["row_group_size"] = 2
    return way


def _draw_lacking(choices: Choices, columns: Mapping[str, str], partition: str | None) -> str | None:
    others = [column for column in list(columns)[1:] if column != partition]
    return choices.among(others) if others and choices.happens(0.4) else None


def _draw_file(choices: Choices, columns: Mapping[str, str]) -> dict[str, Numbers]:
    """Rows of a file: most columns lie close together in it, as skipping needs it."""
    rows = choices.between(0, 12)
    return {column: _draw_numbers(choices, rows, choices.happens(0.2)) for column in columns}


def _draw_numbers(choices: Choices, rows: int, spread: bool) -> Numbers:
    start, width = (0, GREATEST) if spread else (choices.below(36), choices.between(1, 7))
    nulls = choices.among((0.0, 0.0, 0.1, 0.5))
    return [
        None if nulls and choices.happens(nulls) else min(GREATEST, start + choices.below(width)) for _ in range(rows)
    ]


def _draw_history(choices: Choices, name: str, columns: Mapping[str, str]) -> list[list[Any]]:
    steps: list[list[Any]] = []
    for _ in range(choices.below(4)):
        verb = choices.among(("append", "delete", "update", "optimize", "foreign", "rewrite", "index", "remove"))
        match verb:
            case "append" | "foreign" | "rewrite":
                steps.append([verb, _draw_file(choices, columns)])
            case "delete":
                steps.append([verb, f"{name}_0 = {choices.below(GREATEST)}"])
            case "update":
                steps.append([verb, f"{name}_0 < {choices.below(GREATEST)}"])
            case _:
                steps.append([verb])
    return steps
