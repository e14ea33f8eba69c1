"""Looks at the page of a plan that a framework made of its own problem: what it shows is what the plan says, and names, types and lines of the
program are text. `tools/test --view` runs it."""

import os
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import chromium  # noqa: E402
import command  # noqa: E402

import isthmus  # noqa: E402
from isthmus.page import Labels, page  # noqa: E402

TEXTS = "Array.from(document.querySelectorAll({!r}), e => e.textContent)"
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
EVIL = ["<img src=x onerror=window.hit=1>", "</script><script>window.hit=1</script>", "a\x1b[31mb", "\u202egnp.exe"]
LENGTH = 12


def chain():
    """Forward ops, and backward ops that read them in reverse."""
    problem = isthmus.Problem("chain", alignment=1)
    made = [problem.add("x", bytes=1000, pinned=True)]
    for i in range(LENGTH):
        made.append(problem.add(f"f{i}", [made[-1]], cost=2.0 + i, bytes=1000 + i))
    gradient = made[-1]
    for i in reversed(range(LENGTH)):
        gradient = problem.add(f"b{i}", [gradient, made[i]], cost=2.0, bytes=1000, phase="backward")
    problem.outputs = [gradient]
    return problem


def labels(problem):
    names = [f"layer{op.name[1:]}.{op.name}" if op.name != "x" else "x" for op in problem]
    for k, name in enumerate(EVIL):
        names[1 + k] = name
    ops = ["aten.mm" if op.name.startswith("f") else "aten.mm_backward" for op in problem]
    sources = [f"{EVIL[k % len(EVIL)]}:{k} in forward" for k in range(len(problem))]
    return Labels(names, ops, sources, [[f"f32[{op.bytes[0] // 4}]"] for op in problem])


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "page.html")
        self.browser = chromium.Browser(1200, 900).__enter__()
        self.addCleanup(self.browser.__exit__)
        self.problem = chain()
        self.plan = isthmus.plan(self.problem, "60%")

    def show(self, **options):
        content = page(self.problem, self.plan, labels(self.problem), title="a <b>chain</b>", **options)
        with open(self.path, "wb") as file:
            file.write(content)
        self.browser.open(self.path)

    def value(self, expression):
        return self.browser.value(expression)

    def texts(self, selector):
        return self.value(TEXTS.format(selector))

    def check_quiet(self):
        self.assertEqual(self.browser.requests(), ["file://" + self.path])
        self.assertEqual(self.browser.troubles(), [])

    def test_what_it_shows_is_what_the_plan_says(self):
        reserved = 500
        self.show(budget_bytes=9000, reserved_bytes=reserved, prices=[(7000, 200.0), (5000, 250.0)])
        figures, step = self.plan.figures, "isthmusView.shared.step"
        self.assertGreater(figures.recomputed, 0)
        self.assertEqual(self.value(f"{step}.peakBytes"), figures.peak_bytes + reserved)
        self.assertEqual(self.value("isthmusView.other.peakBytes"), figures.baseline_peak_bytes + reserved)
        self.assertEqual(self.value(f"Array.from({step}.standIn).filter(s => s === 1).length"), figures.recomputed)
        shown = sum(self.value(f"({step}.live.map(of => of[{step}.peakNode]))"))
        self.assertEqual(shown, figures.peak_bytes + reserved)
        self.assertIn("as Isthmus would place them", self.texts("#arena-hint")[0])
        self.value("document.getElementById('tab-price').click()")
        rows = self.value("Array.from(document.querySelectorAll('.prices tr[data-peak]'), r => +r.dataset.peak)")
        self.assertLessEqual({7000, 5000, figures.peak_bytes + reserved, figures.baseline_peak_bytes + reserved}, set(rows))
        self.value("document.getElementById('tab-comparison').click()")
        self.assertRegex(self.value("document.getElementById('list-comparison').textContent"), f"{figures.recomputed} tensors? handled otherwise")
        for width in 400, 1200:
            self.browser.resize(width, 900)
            self.value(FRAME)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
        self.check_quiet()

    def test_names_types_and_lines_are_text(self):
        self.show()
        step = "isthmusView.shared.step"
        seen = ""
        for node in range(self.value(f"{step}.numNodes")):
            self.value(f"isthmusView.shared.select({{node: {node}}})")
            seen += self.value("document.getElementById('card').textContent")
        self.assertIsNone(self.value("window.hit"))
        for text in EVIL[:2] + ["a\\u{1b}[31mb", "\\u{202e}gnp.exe:", "aten.mm_backward", "f32[250]", "layer5.f5", ":7 in forward"]:
            self.assertIn(text, seen)
        self.assertNotIn("\u202e", seen)
        self.value(f"isthmusView.shared.select({{block: {step}.blocks.liveAt({step}.peakNode).find(i => {step}.blocks.value[i])}})")
        rows = dict(self.value("Array.from(document.querySelectorAll('#card tr'), e => [e.children[0].textContent, e.children[1].textContent])"))
        self.assertIn(" in forward", rows["line"])
        self.check_quiet()


if __name__ == "__main__":
    chromium.or_skip()
    command.main()
