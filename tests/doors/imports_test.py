"""Tests that the imports of the Python package form no cycle, not even by an import within a function."""

import ast
import graphlib
import os
import pathlib
import unittest

ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2] / "tools" / "python"
MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in ROOT.glob("isthmus/**/*.py")}


def imported(module: str, path: pathlib.Path) -> set[str]:
    """Modules of the package that this one names."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folders = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            parts = folders[: len(folders) + 1 - node.level] if node.level else []
            base = ".".join(parts + (node.module.split(".") if node.module else []))
            names |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}
    return names & MODULES.keys()


class Imports(unittest.TestCase):
    def test_they_go_one_way(self):
        graph = {module: imported(module, path) for module, path in MODULES.items()}
        self.assertGreater(len(graph["isthmus.torch.plans.attempt"]), 5)
        try:
            order = list(graphlib.TopologicalSorter(graph).static_order())
        except graphlib.CycleError as error:
            self.fail(f"these import one another in a circle: {' -> '.join(error.args[1])}")
        self.assertEqual(set(order), set(MODULES))


if __name__ == "__main__":
    unittest.main()
