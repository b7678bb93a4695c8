"""Delta's own reader is there, and reads what it wrote."""

from __future__ import annotations


def test_a_table_is_written_and_read(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(10).write.format("delta").save(path)
    assert spark.read.format("delta").load(path).count() == 10
