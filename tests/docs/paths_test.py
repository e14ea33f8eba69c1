"""Every file, folder and section of the project that a page names exists."""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.path.realpath(__file__)).parents[2]
ROOMS = ("ir", "passes", "runtime", "kernels", "tools", "tests", "docs")
OF_OTHERS = ("cuda_fp16.h", "memory_saving_gradients.py")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def prose(text):
    """The page without blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def anchors(page):
    """The sections of a page, as GitHub names them in links."""
    titles = re.findall(r"^#+ (.*)$", prose(page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def named(page):
    """The paths that a page names in code, from the root: `ir/op_def.h`, `passes/chunk`; `x.{h,cc}` are two."""
    found = set()
    for text in re.findall(r"`([^`\n]+)`", prose(page.read_text())):
        path = text.rstrip("/")
        if not re.fullmatch(rf"(?:{'|'.join(ROOMS)})/[\w./{{}},\-]+", path):
            continue
        group = re.fullmatch(r"(.*)\{(.*)\}(.*)", path)
        found.update(f"{group[1]}{each}{group[3]}" for each in group[2].split(",")) if group else found.add(path)
    return sorted(found)


class Paths(unittest.TestCase):
    def test_links(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, section = link.partition("#")
                to = page.parent / path if path else page
                with self.subTest(page=page.name, link=link):
                    self.assertTrue(to.exists(), "no such file")
                    if section and to.suffix == ".md":
                        self.assertIn(section, anchors(to))

    def test_paths_in_code(self):
        for page in PAGES:
            for path in named(page):
                with self.subTest(page=page.name, path=path):
                    self.assertTrue((ROOT / path).exists() or list(ROOT.glob(path + ".*")) or list(ROOT.glob(path + "_*")), "no such file or folder")

    def test_files_without_a_folder(self):
        there = {path.name for room in ROOMS for path in (ROOT / room).rglob("*")} | {path.name for path in ROOT.iterdir()} | set(OF_OTHERS)
        for page in PAGES:
            for name in sorted(set(re.findall(r"`([\w.]+\.(?:cc|h|py|cu|hpp|bzl|c))`", prose(page.read_text())))):
                with self.subTest(page=page.name, name=name):
                    self.assertIn(name, there)

    def test_pages_are_found(self):
        self.assertGreater(len(PAGES), 20)
        self.assertIn("ir/op_def.h", named(ROOT / "docs/add_a_pass.md"))


if __name__ == "__main__":
    unittest.main()
