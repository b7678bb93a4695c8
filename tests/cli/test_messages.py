from __future__ import annotations

import logging
import warnings

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from sidestep import SidestepError, SidestepWarning
from sidestep.cli.messages import plain_messages, sentence
from sidestep.cli.show import shown


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (SidestepError("No table at /x.\nmore"), "No table at /x."),
        (Py4JError("gone"), "The connection to Spark's Java process was lost; --verbose shows what Java says."),
        (KeyError("x"), "Something unforeseen happened (KeyError: 'x'); --verbose shows where."),
    ],
)
def test_errors_as_sentences(problem, said):
    assert sentence(problem) == said


def test_an_error_ends_the_command_with_code_1(capsys):
    with pytest.raises(typer.Exit) as ended, plain_messages(verbose=False):
        raise SidestepError("This [b]and that[/b].")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "Error: This [b]and that[/b].\n"


def test_an_interrupt_is_no_error_even_where_another_covers_it(capsys):
    def cancelled():
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("job cancelled")

    with pytest.raises(typer.Exit) as ended, plain_messages(verbose=False):
        cancelled()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_warnings_and_log_records_are_lines_without_tracebacks(capsys):
    with plain_messages(verbose=False):
        warnings.filterwarnings("always")
        warnings.warn(SidestepWarning("One index file was left out."), stacklevel=1)
        warnings.warn(DeprecationWarning("not for the user"), stacklevel=1)
        try:
            raise ValueError("deep")
        except ValueError:
            logging.getLogger("sidestep").warning("A query was left as it was: %s", "deep", exc_info=True)
        logging.getLogger("py4j").warning("not for the user")
    assert (
        capsys.readouterr().err == "Warning: One index file was left out.\nWarning: A query was left as it was: deep\n"
    )


@given(st.text())
def test_no_text_drives_the_terminal(text):
    assert all(one.isprintable() or one in "\n\t" for one in shown(text))
