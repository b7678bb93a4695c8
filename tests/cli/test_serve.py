"""The command that opens the console, where it refuses to; tests/console has what it serves."""

from __future__ import annotations

import socket

from typer.testing import CliRunner

from sidestep.cli import app


def refusal(*words: object) -> str:
    done = CliRunner().invoke(app, ["serve", *map(str, words)])
    assert done.exit_code == 1, done.output
    return " ".join(done.stderr.split())


def test_an_address_that_others_reach_needs_a_token(tmp_path):
    assert "give a secret with --token" in refusal(tmp_path, "--host", "0.0.0.0")
    assert "too short" in refusal(tmp_path, "--host", "0.0.0.0", "--token", "short")


def test_folders_tables_and_logs_have_to_be_there(tmp_path):
    assert "There is no folder" in refusal(tmp_path / "no")
    assert "There is no table at" in refusal("-t", f"t={tmp_path / 'no'}")
    assert "There is no log at" in refusal(tmp_path, "--log", tmp_path / "no.sql")


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Choose another with --port" in refusal(tmp_path, "--port", taken.getsockname()[1])


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'fastapi'", name="fastapi")

    monkeypatch.setattr("sidestep.cli.serve.importlib.import_module", missing)
    assert "pip install 'sidestep[console]'" in refusal(tmp_path)


def test_help():
    done = CliRunner().invoke(app, ["serve", "--help"])
    assert done.exit_code == 0
    assert "console" in done.output
