from __future__ import annotations

from bench.demo import main


def test_the_demo_runs_and_finds_equal_rows(spark, tmp_path, capsys):
    assert main(["--sf", "0.001", "--train", "40", "--data", str(tmp_path), "--runs", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "All 8 queries gave the same rows on both layouts." in text
    assert "zone map" in text
    assert "5. Why q5 reads so little" in text
    assert not spark.catalog.tableExists("denorm_laid_out")


def test_a_problem_is_a_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    assert main(["--data", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("Error: ")
