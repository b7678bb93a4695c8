"""The oracle is what faster judgement is tested against: no product code may lean on it."""

from __future__ import annotations

import ast
from pathlib import Path

import sidestep


def test_no_product_code_imports_the_oracle():
    root = Path(sidestep.__file__).parent
    importers = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "sidestep.predicate.oracle"
    ]
    assert importers == []
