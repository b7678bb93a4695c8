"""Functions that look at the world outside have no identity: when the world changes, no block is skipped on them.

Each function decides by something that is changed between the load and the query. Had the blocks been laid out by the
old answer, rows of the new one would be missing.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

import sidestep
from sidestep import SidestepWarning
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.soundness.test_settings import read_predicates
from tests.spark.tables import checked_read

ROWS = 300


def write_words(folder: Path, words: list[str]) -> None:
    """The same words in many kinds of files."""
    text = "\n".join(words)
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text(text)
    (folder / "words.csv").write_text("word\n" + text)
    (folder / "words.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "words.bz2").write_bytes(bz2.compress(text.encode()))
    (folder / "words.xz").write_bytes(lzma.compress(text.encode()))
    np.save(folder / "words.npy", np.array(words))


READERS = {
    "by_gzip": "import gzip\ndef f(x): return x in gzip.open(PATH + '/words.gz').read().decode().split()",
    "by_bz2": "import bz2\ndef f(x): return x in bz2.open(PATH + '/words.bz2').read().decode().split()",
    "by_lzma": "from lzma import open as o\ndef f(x): return x in o(PATH + '/words.xz').read().decode().split()",
    "by_codecs": "import codecs\ndef f(x): return x in codecs.open(PATH + '/words.txt').read().split()",
    "by_pandas": "import pandas\ndef f(x): return x in set(pandas.read_table(PATH + '/words.csv').word.astype(str))",
    "by_numpy": "import numpy as np\ndef f(x): return bool((np.load(PATH + '/words.npy') == x).any())",
    "inside": "def f(x):\n  import codecs as c\n  return x in c.open(PATH + '/words.txt').read().split()",
    "wrapped": (
        "import functools, codecs\n"
        "def plain(x): return x in codecs.open(PATH + '/words.txt').read().split()\n"
        "@functools.wraps(plain)\ndef f(x): return f.__wrapped__(x)"
    ),
}


@pytest.fixture
def words(spark, tmp_path) -> Iterator[Path]:
    """A folder of words, and functions that look for a word in it."""
    folder = tmp_path / "words"
    write_words(folder, [str(n) for n in range(20)])
    with same_interpreter(spark.sparkContext):  # which has pandas and numpy
        for name, source in READERS.items():
            space: dict[str, object] = {"__name__": "__main__", "PATH": str(folder)}
            exec(compile(source, "<cell>", "exec"), space)
            spark.udf.register(name, space["f"], "boolean")
    yield folder
    for name in READERS:
        spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def load(spark: SparkSession, source: str, target: Path, conditions: list[str]) -> list[str]:
    """Lays a table out by features, and returns what was said of those that were left out."""
    features = tuple(Feature(read_predicates(spark, source, condition)) for condition in conditions)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", SidestepWarning)
        sidestep.load(spark, source, str(target), features=FeatureSet("t", features), min_size=20)
    return [str(one.message) for one in said]


def test_a_file_that_changes_changes_the_answer(spark, words, tmp_path, enabled):
    source, target = str(tmp_path / "source"), tmp_path / "t"
    spark.sql(f"SELECT CAST((id * 7919) % {ROWS} AS STRING) AS s FROM range({ROWS})").coalesce(1).write.parquet(source)
    said = load(spark, source, target, ["length(s) = 1", *(f"{name}(s)" for name in READERS)])
    assert len([text for text in said if "sidestep.stable" in text]) == len(READERS), said
    assert checked_read(spark, str(target), "length(s) = 1")[1].rows == 10  # the one that is pure is of use
    write_words(words, [str(n) for n in range(10, ROWS)])
    for name in READERS:
        assert checked_read(spark, str(target), f"{name}(s)")[0] == ROWS - 10, name
    explained = str(sidestep.explain(sidestep.read(spark, target).where("by_gzip(s)")))
    assert "has no identity" in explained
    assert "sidestep.stable" in explained
