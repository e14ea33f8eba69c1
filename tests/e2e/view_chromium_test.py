"""Looks at the page of `view` in Chromium: what it shows is what the report says, it answers the pointer and the keys, no
request leaves it, odd names are text, and large graphs open and scroll fast. `tools/test --view` runs it."""

import os
import pickle
import time
import unittest

import chromium
import command
import snapshots
from cli_cases import Case
from page_data import PageData, graph_of_names

QUICK = ["--effort=0.05"]
UNET = ["unet", "--batch=4", "--shape=1x64x64", "--width=4", "--depth=3"]
# By the kind of live bytes that a plan makes: a model, and options for that plan.
PLANS = {
    "recomputed": (UNET, ["--loss=cross_entropy", "--budget=min"]),
    "fetched": (UNET, ["--loss=cross_entropy", "--budget=70%", "--allow=recompute,fetch"]),
    "encoded": (UNET, ["--loss=cross_entropy", "--wrt=inputs", "--budget=75%", "--allow=recompute,encode"]),
    "chunks": (["gpt2", "--depth=2", "--width=64", "--heads=4", "--batch=2", "--tokens=64", "--vocab=4000"],
               ["--loss=cross_entropy", "--budget=min", "--allow=recompute,chunk"]),
    "rebuilt by inverses": (["glow", "--depth=8", "--levels=2", "--width=16", "--shape=1x8x8", "--batch=64"],
                            ["--budget=min", "--allow=recompute,invert"]),
}
# Seconds that this machine may take longer than the goals, which are for a machine without other work.
PATIENCE = 4
# An expression for the texts of a selector's elements.
TEXTS = "Array.from(document.querySelectorAll({!r}), e => e.textContent)"
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


def kib(text):
    """Returns the bytes that a text such as "1.5 MiB" tells, and the last digit's worth."""
    number, unit = text.replace(",", "").split()
    scale = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)
    return float(number) * scale, scale * (0.051 if "." in number else 0.51)


class InChromium(Case):
    def setUp(self):
        super().setUp()
        self.browser = chromium.Browser(1200, 900).__enter__()
        self.addCleanup(self.browser.__exit__)

    def show(self, *args):
        self.run_ok("view", *args, "-o", "page.html")
        seconds = self.browser.open(self.path("page.html"))
        return PageData(self.read("page.html")), seconds

    def unet(self, *plan):
        if "unet.isth" not in self.files():
            self.run_ok("zoo", *UNET, "-o", "unet.isth")
        return self.show("unet.isth", "--loss=cross_entropy", *plan)

    def value(self, expression):
        return self.browser.value(expression)

    def texts(self, selector):
        return self.value(TEXTS.format(selector))

    def at(self, panel, x, y):
        """Returns the place on the screen of a place in a panel, both in shares of its width and height."""
        left, top, width, height = self.box(panel)
        return left + x * width, top + y * height

    def box(self, panel):
        return self.value(f"(r => [r.left, r.top, r.width, r.height])(isthmusView.{panel}.canvas.getBoundingClientRect())")

    def pairs(self, selector, pair):
        """Returns a dictionary with the pair that an expression gives for each element `e`."""
        return dict(self.value(f"Array.from(document.querySelectorAll({selector!r}), e => {pair})"))

    def wait_for(self, expression, seconds=10):
        end = time.monotonic() + seconds
        while not self.value(expression):
            self.assertLess(time.monotonic(), end, expression)
            time.sleep(0.05)

    def check_quiet(self):
        """Only the page itself was asked for, and nothing went wrong."""
        self.assertEqual(self.browser.requests(), ["file://" + self.path("page.html")])
        self.assertEqual(self.browser.troubles(), [])

    def assert_bytes(self, text, expected):
        number, near = kib(text)
        self.assertLessEqual(abs(number - expected), near, text)

    def has_colour(self, panel, colour):
        return self.value(f"""(() => {{
            const p = isthmusView.{panel}, d = p.context.getImageData(0, 0, p.canvas.width, p.canvas.height).data;
            const [r, g, b] = rgbOf({colour!r});
            for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) return true; return false }})()""")


class Page(InChromium):
    def test_what_it_shows_is_what_the_report_says(self):
        for kind, (model, plan) in PLANS.items():
            with self.subTest(kind):
                self.run_ok("zoo", *model, "-o", "model.isth")
                self.browser.events.clear()
                data, _ = self.show("model.isth", *plan, "--effort=0.1")
                self.check_page(data, kind)
                self.check_quiet()

    def check_page(self, data, kind):
        figures, step = data.head["figures"], data.head["steps"][0]
        peak = figures["predicted_peak_bytes"]
        chips = self.pairs(".chip", "[e.firstChild.textContent, e.lastChild.textContent.trim()]")
        self.assert_bytes(chips["peak"], peak)
        self.assert_bytes(chips["budget"], data.head["budget_bytes"])
        self.assert_bytes(chips["arena"], figures["arena_bytes"])
        self.assertIn(kind, self.texts("#legend .key"))
        # The list is that of the peak, to the byte.
        live = {data.head["kinds"].index(k): of[step["peak_node"]] for k, of in data.live_by_kind().items() if of[step["peak_node"]]}
        rows = self.value("Array.from(document.querySelectorAll('.kinds tr'), r => [+r.dataset.kind, +r.dataset.bytes])")
        self.assertEqual(dict(rows), live)
        self.assertEqual(sum(live.values()), peak)
        listed = self.value("(s => s.blocks.liveAt(s.peakNode).reduce((sum, i) => sum + s.blocks.bytes[i], 0))(isthmusView.shared.step)")
        self.assertEqual(listed, peak)
        # The picture has the colour of the kind.
        colour = self.value(f"isthmusView.theme.kind({data.head['kinds'].index(kind)})")
        self.assertTrue(any(self.has_colour(panel, colour) for panel in ("profile", "arena")), kind)

    def test_the_heaviest_node_of_any_stretch(self):
        self.unet("--policy=memory")
        self.assertEqual(self.value("""(() => { const s = isthmusView.shared.step; let wrong = 0;
            for (let from = 0; from < s.numNodes; from += 3) for (let to = from + 1; to <= s.numNodes; to += 7) {
              const most = Math.max(...s.total.subarray(from, to));
              if (s.total[s.heaviest(from, to)] !== most) ++wrong;
            }
            return wrong })()"""), 0)

    def test_a_click_selects_in_every_panel(self):
        self.unet("--policy=memory")
        # The largest tensor that is saved at the peak, by its rectangle in the arena.
        left, top, _, _ = self.box("arena")
        x, y, name = self.value("""(() => {
            const v = isthmusView, s = v.shared.step, i = s.blocks.liveAt(s.peakNode).find(i => s.blocks.kind[i] === 0);
            const [x, y, w, h] = v.arena.rectOf(i);
            return [x + w / 2, y + h / 2, s.valueName(s.blocks.value[i] - 1)] })()""")
        x, y = left + x, top + y
        self.browser.mouse("mouseMoved", x, y)
        self.assertIn(name, " ".join(self.texts("#tip")))
        self.browser.click(x, y)
        self.value(FRAME)
        self.assertEqual(self.texts("#card h2"), [name])
        rows = self.pairs("#card tr", "[e.children[0].textContent, e.children[1].textContent]")
        self.assertLessEqual({"shape", "bytes", "kind", "made by", "last reader", "lives", "offset"}, rows.keys())
        self.assertGreater(self.value("isthmusView.shared.light.readers.length"), 0)
        self.assertGreater(self.value("isthmusView.graph.lit.size"), 0)
        # A click on nothing clears it; so does Escape.
        self.value("isthmusView.shared.select(null)")
        self.browser.click(*self.at("profile", 0.5, 0.8))
        self.assertGreater(len(self.texts("#card tr")), 0)
        self.browser.key("Escape")
        self.assertEqual(self.texts("#card h2"), ["Selected"])
        self.check_quiet()

    def test_a_page_at_rest_draws_nothing(self):
        self.unet("--policy=memory")
        drawn = self.value("""(async () => {
            let drawn = 0;
            for (const panel of [isthmusView.profile, isthmusView.arena, isthmusView.graph]) {
              const paint = panel.paint.bind(panel);
              panel.paint = c => { ++drawn; paint(c); };
              panel.request();
            }
            for (let i = 0; i < 10; ++i) await new Promise(done => requestAnimationFrame(done));
            return drawn })()""")
        self.assertEqual(drawn, 3)

    def test_folding(self):
        self.unet("--policy=memory")
        self.value("(isthmusView.graph.modules.closeAll(), isthmusView.graph.refold(), isthmusView.graph.draw())")
        rows = self.value("isthmusView.graph.rows.map(r => r.name)")
        self.assertLessEqual({"down1", "bottom", "up1"}, set(rows))
        left, top, _, _ = self.box("graph")
        row = self.value("(g => g.yOf(g.rows.findIndex(r => r.name === 'down1')))(isthmusView.graph)")
        self.browser.click(left + 30, top + row + 10)
        opened = self.value("isthmusView.graph.rows.map(r => r.name)")
        self.assertGreater(len(opened), len(rows))
        self.assertIn("conv1", opened)
        # A module's figures are the sums of what is in it.
        self.assertEqual(self.value("""(() => { const m = isthmusView.graph.modules, s = isthmusView.shared.step; let wrong = 0;
            COLUMNS.forEach((_, c) => { const all = m.cell({module: 0, node: -1}, c), own = [];
              for (let n = 0; n < s.numNodes; ++n) if (m.columnOf(n) === c) own.push(n);
              if (Math.abs(all.time - own.reduce((t, n) => t + s.us[n], 0)) > 1e-3 * (1 + all.time)) ++wrong;
              if (all.nodes !== own.filter(n => s.standIn[n] !== 2).length) ++wrong;
            });
            return wrong })()"""), 0)
        self.check_quiet()

    def test_the_keyboard_alone(self):
        data, _ = self.unet("--budget=min", *QUICK)
        key, peak = self.browser.key, data.head["steps"][0]["peak_node"]
        self.assertEqual(self.value("isthmusView.shared.cursor"), peak)
        key("ArrowRight")
        key("ArrowRight")
        key("ArrowLeft")
        self.assertEqual(self.value("isthmusView.shared.cursor"), peak + 1)
        key("p")
        key("+")
        key("+")
        width = self.value("isthmusView.shared.stretch.width")
        self.assertAlmostEqual(width, max(8, 0.49 * data.head["steps"][0]["nodes"]), places=3)
        from_before = self.value("isthmusView.shared.stretch.from")
        key("d")
        self.assertNotEqual(self.value("isthmusView.shared.stretch.from"), from_before)
        key("0")
        self.assertTrue(self.value("isthmusView.shared.stretch.isWhole()"))
        key("Enter")
        self.assertEqual(self.texts("#card th")[0], "op")
        key("Enter")
        self.assertEqual(self.texts("#card th")[0], "shape")
        key("/", text="")
        self.assertEqual(self.value("document.activeElement.id"), "search")
        self.browser.type("conv_transpose")
        found = self.value("isthmusView.search.nodes.length")
        expected = self.value("""(() => {
            const s = isthmusView.shared.step;
            let n = 0;
            for (let i = 0; i < s.numNodes; ++i) n += s.opName(i) === 'conv_transpose' || s.nodeName(i).includes('conv_transpose');
            return n })()""")
        self.assertEqual(found, expected)
        self.assertGreater(found, 0)
        key("Enter")
        self.assertEqual(self.value("isthmusView.shared.light.node"), self.value("isthmusView.search.nodes[0]"))
        key("Escape")
        self.assertEqual(self.value("document.getElementById('search').value"), "")
        theme = self.value("document.documentElement.dataset.theme")
        key("t")
        self.assertNotEqual(self.value("document.documentElement.dataset.theme"), theme)
        key("?")
        self.assertTrue(self.value("document.getElementById('help').open"))
        self.check_quiet()

    def test_the_wheel_and_dragging(self):
        self.unet("--policy=memory")
        x, y = self.at("profile", 0.5, 0.5)
        self.browser.wheel(x, y, 0, -300)
        self.value(FRAME)
        width = self.value("isthmusView.shared.stretch.width")
        self.assertLess(width, self.value("isthmusView.shared.stretch.all") / 1.5)
        start = self.value("isthmusView.shared.stretch.from")
        self.browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.browser.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
        self.assertGreater(self.value("isthmusView.shared.stretch.from"), start)
        self.assertIsNone(self.value("isthmusView.shared.light"), "dragging is no click")
        self.check_quiet()

    def test_light_and_dark(self):
        self.unet("--policy=memory")
        for scheme in "dark", "light":
            self.browser.prefer(scheme)
            self.wait_for(f"document.documentElement.dataset.theme === {scheme!r}")
            self.assertEqual(self.value("document.documentElement.dataset.theme"), scheme)
            page = self.value("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(page == "rgb(255, 255, 255)", scheme == "light")
        self.check_quiet()

    def test_a_narrow_window(self):
        self.unet("--policy=memory")
        for width in 400, 1200:
            self.browser.resize(width, 900)
            self.value(FRAME)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
            for panel in "profile", "arena", "graph":
                self.assertGreater(self.value(f"isthmusView.{panel}.width"), 300)
                self.assertGreater(self.value(f"isthmusView.{panel}.height"), 100)
        self.check_quiet()

    def test_two_models_in_step(self):
        self.run_ok("zoo", *UNET, "-o", "unet.isth")
        self.run_ok("opt", "unet.isth", "--loss=cross_entropy", "--budget=min", *QUICK, "-o", "small.isth")
        data, _ = self.show("small.isth", "unet.isth", "--loss=cross_entropy")
        self.assertTrue(self.value("isthmusView.profile.isSplit"))
        # Nodes of both are drawn at the same place.
        for a, b in list(zip(data.column("same.a"), data.column("same.b")))[::5]:
            self.assertEqual(self.value(f"isthmusView.inStep.toOther({a})"), b)
            self.assertEqual(self.value(f"isthmusView.inStep.fromOther({b})"), a)
        self.value("document.getElementById('tab-comparison').click()")
        self.assertIn("recomputed", " ".join(self.texts("#list-comparison .faint")))
        self.check_quiet()

    def test_budgets_and_what_to_do_next(self):
        data, _ = self.unet("--budget=60%", "--effort=0.2")
        self.browser.click(*self.value("(r => [r.left + 5, r.top + 5])(document.getElementById('tab-price').getBoundingClientRect())"))
        rows = self.value("Array.from(document.querySelectorAll('.prices tr[data-peak]'), r => [+r.dataset.peak, +r.dataset.added])")
        self.assertEqual(rows, [[p["peak_bytes"], p["added"]] for p in data.head["curve"]])
        self.assertGreater(len(rows), 1)
        marks = self.value("Array.from(document.querySelectorAll('.curve circle'), c => [c.cx.baseVal.value, c.cy.baseVal.value])")
        self.assertEqual(len(marks), len(rows))
        self.assertEqual(sorted((x for x, _ in marks), reverse=True), [x for x, _ in marks])
        advice = " ".join(self.texts(".advice li"))
        self.assertIn(f"isthmus sweep unet.isth --fit={data.head['budget_bytes']} --batch", advice)
        self.assertEqual("knee of the curve" in advice, data.head["knee"] is not None)
        self.check_quiet()

    def snapshot(self, allocator, *others):
        self.write("s.pickle", pickle.dumps(allocator.snapshot(), 5))
        return self.show("s.pickle", *others)[0]

    def test_a_snapshot(self):
        allocator = snapshots.training()
        data = self.snapshot(allocator)
        found = data.head["steps"][0]["snapshot"]
        chips = self.pairs(".chip", "[e.firstChild.textContent, e.lastChild.textContent.trim()]")
        for chip, key in [("reserved", "reserved_bytes"), ("allocated", "allocated_bytes"), ("unused at the peak", "unused_bytes")]:
            self.assert_bytes(chips[chip], found[key])
        self.assertLessEqual({"allocated", "freed, awaits a stream", "reserved, unused"}, set(self.texts("#legend .key")))
        self.assertIn("Segments", self.texts("#arena h2")[0])
        rows = self.value("Array.from(document.querySelectorAll('.kinds tr'), r => [+r.dataset.kind, +r.dataset.bytes])")
        peak = max(allocator.known, key=sum)
        self.assertEqual({k: b for k, b in rows}, {13 + i: b for i, b in enumerate(peak) if b})
        self.assertTrue(self.has_colour("arena", self.value("isthmusView.theme.kind(15)")))
        # A rectangle tells the line that asked for it, and the event that freed it.
        self.value("""(s => isthmusView.shared.select({block: Array.from(s.blocks.kind).findIndex((kind, i) => kind === 13
            && s.valueName(s.blocks.value[i] - 1).startsWith("model.py:31") && s.readersOf(s.blocks.value[i] - 1).length)}))(isthmusView.shared.step)""")
        rows = self.pairs("#card tr", "[e.children[0].textContent, e.children[1].textContent]")
        self.assertEqual(self.texts("#card h2"), ["model.py:31 forward"])
        self.assertIn("alloc", rows["made by"])
        self.assertIn("free_", rows["freed by"])
        self.assertEqual(self.value("isthmusView.graph.columns.map(c => c.name)"), ["allocations", "frees", "other"])
        self.check_quiet()

    def test_a_snapshot_beside_a_plan(self):
        self.run_ok("zoo", *UNET, "-o", "unet.isth")
        allocator = snapshots.training()
        data = self.snapshot(allocator, "unet.isth", "--loss=cross_entropy", "--policy=memory")
        chips = self.pairs(".chip", "[e.firstChild.textContent, e.lastChild.textContent.trim()]")
        self.assert_bytes(chips["reserved"], max(map(sum, allocator.known)))
        self.assertIn("unet.isth", chips)
        self.assertLessEqual({"reserved, unused", "saved activations"}, set(self.texts("#legend .key")))
        self.value("document.getElementById('tab-comparison').click()")
        text = self.value("document.getElementById('list-comparison').textContent")
        self.assertIn("reserved, unused", text)
        self.assertIn("saved activations", text)
        self.assertEqual(data.head["steps"][1]["name"], "unet.isth")
        for width in 400, 1200:
            self.browser.resize(width, 900)
            self.value(FRAME)
            self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
        self.check_quiet()

    def test_lines_of_a_snapshot_are_text(self):
        names = ["<img src=x onerror=window.hit=1>", "</script><script>window.hit=1</script>", "a\x1b[31mb", "\u202egnp.exe"]
        allocator = snapshots.Allocator()
        for name in names:
            allocator.alloc(1000, [{"filename": "x/model.py", "line": 1, "name": name}])
        self.snapshot(allocator)
        for node in range(1, 1 + len(allocator.trace)):
            self.value(f"isthmusView.shared.select({{node: {node}}})")
        self.assertIsNone(self.value("window.hit"))
        text = self.value("document.body.textContent")
        self.assertIn("<img src=x onerror=window.hit=1>", text)
        self.assertIn("a\\u{1b}[31mb", text)
        self.assertNotIn("\u202e", text)
        self.check_quiet()

    def test_names_are_text(self):
        names = ["</script><script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "a\x1b[31mb\n", "\u202egnp.exe",
                 "\u05e9\u05dc\u05d5\u05dd"]
        self.write("evil.isth", graph_of_names(names))
        self.show("evil.isth", "--loss=mean")
        for node in range(len(names)):
            self.value(f"isthmusView.shared.select({{node: {node}}})")
        self.assertIsNone(self.value("window.hit"))
        text = self.value("document.body.textContent")
        self.assertIn("<img src=x onerror=window.hit=1>", text)
        self.assertIn("\\u{202e}gnp.exe", text)
        self.assertIn("a\\u{1b}[31mb\\u{a}", text)
        self.assertIn(names[-1], text)
        self.assertNotIn("\u202e", text)
        self.check_quiet()

    def test_a_graph_without_nodes_or_gradients(self):
        self.write("none.isth", "isthmus 2\ngraph @none {\n  input %x : f32[4]\n  output %x\n}\n")
        self.show("none.isth")
        self.check_quiet()
        self.run_ok("zoo", *UNET, "-o", "unet.isth")
        self.browser.events.clear()
        self.show("unet.isth")
        self.check_quiet()


class Staged(InChromium):
    """The page of a step over several devices."""

    def pipeline(self, *options):
        self.run_ok("zoo", "gpt2", "--depth=4", "--width=32", "--heads=4", "--batch=8", "--tokens=16", "--vocab=100", "-o", "gpt2.isth")
        return self.show("gpt2.isth", "--loss=cross_entropy", "--threads=1", "--stages=2", "--microbatches=4", "--checkpoint=always",
                         "--schedule=1f1b", *options)[0]

    def bars(self, data, place):
        """Returns a list of (kind, micro-batch, first node, number of nodes, begin, end)."""
        column = lambda name: data.column(f"p{place}.{name}")
        begin, end = column("node.begin"), column("node.end")
        return [(data.head["works"][kind], batch, first, count, begin[first], end[first + count - 1])
                for kind, batch, first, count in zip(*(column("bar." + c) for c in ("kind", "batch", "first", "count")))]

    def card(self):
        return self.pairs("#card table:first-of-type tr", "[e.children[0].textContent, e.children[1].textContent]")

    def test_what_it_shows_is_what_the_report_says(self):
        data = self.pipeline("--budget=90%", *QUICK)
        figures = data.head["figures"]
        chips = self.pairs(".chip", "[e.firstChild.textContent, e.lastChild.textContent.trim()]")
        self.assert_bytes(chips["largest peak"], figures["predicted_peak_bytes"])
        self.assert_bytes(chips["budget"], data.head["budget_bytes"])
        self.assertEqual(chips["devices wait"], f"{100 * figures['bubble']:.1f} %")
        self.assertEqual(chips["order"], "1f1b")
        heads = self.texts(".place h2")
        for head, stage, step in zip(heads, figures["stages"], data.head["steps"]):
            self.assertTrue(head.startswith(stage["device"]))
            for key in "predicted_peak_bytes", "arena_bytes", "persistent_bytes":
                self.assertIn(self.value(f"bytesText({stage[key]})"), head)
            self.assertIn(self.value(f"timeText({1e6 * stage['busy_seconds']})"), head)
        self.assertIn("received", self.texts("#place-legend .key"))
        self.assertTrue(self.has_colour("places.schedule", self.value("isthmusView.theme.way(PHASE_WAY[1])")), "backward")
        self.assertTrue(self.value("isthmusView.places.parts.every(p => p.profile.width > 300 && p.arena.height > 100)"))
        # All panels have one axis of time.
        self.assertEqual(self.value("""(v => v.places.parts.flatMap(p => [p.profile, p.arena])
            .filter(p => Math.abs(p.xAt(1000) - v.places.schedule.xAt(1000)) > 1e-6).length)(isthmusView)"""), 0)
        self.check_quiet()

    def test_a_click_on_a_bar(self):
        data = self.pipeline()
        for place in 0, 1:
            bars = self.bars(data, place)
            bar = max((i for i, b in enumerate(bars) if b[1]), key=lambda i: bars[i][5] - bars[i][4])
            kind, batch, _, count, begin, end = bars[bar]
            left, top, _, _ = self.box("places.schedule")
            x, y = self.value(f"(s => [s.xAt({(begin + end) / 2}), s.topOf({place}) + s.barHeight / 2])(isthmusView.places.schedule)")
            self.browser.mouse("mouseMoved", left + x, top + y)
            self.assertIn(f"{kind} of micro-batch {batch}", " ".join(self.texts("#tip")))
            self.browser.click(left + x, top + y)
            self.value(FRAME)
            self.assertEqual(self.texts("#card h2"), [kind])
            card = self.card()
            self.assertEqual((card["device"], card["micro-batch"]), (f"cpu:{place}", str(batch)))
            self.assertEqual(card["takes"], self.value(f"timeText({(end - begin) / 1000})"))
            self.assertTrue(card["nodes"].startswith(str(count) + ","))
            self.assertEqual(self.value("isthmusView.shared.step.name"), f"cpu:{place}")
            self.assertGreater(self.value("isthmusView.graph.lit.size"), 0)
            # The first of its nodes, in the list of the slowest, is selected by a click.
            self.value("document.querySelector('#card .tensors .link').click()")
            self.assertEqual(self.card()["device"], f"cpu:{place}")
        # A tensor of another device makes the card, the list and the graph those of that device.
        name = self.value("""(shared => { const {blocks, peakNode} = shared.step;
            shared.select({block: blocks.liveAt(peakNode).find(i => blocks.value[i])});
            return document.querySelector('#card h2').textContent })(isthmusView.everyShared[0])""")
        self.assertTrue(name.encode() in data.names("p0."), name)
        self.assertEqual(self.value("isthmusView.graph.shared.step.name"), "cpu:0")
        self.check_quiet()

    def test_the_keyboard_alone(self):
        data = self.pipeline()
        key = self.browser.key
        self.value("isthmusView.places.schedule.canvas.focus()")
        for _ in range(2):
            key("ArrowRight")
        self.assertEqual(self.value("isthmusView.shared.light.bar"), 1)
        self.assertEqual(self.card()["device"], "cpu:0")
        key("ArrowDown")
        self.assertEqual(self.card()["device"], "cpu:1")
        at = self.bars(data, 0)[1][4]
        bar = self.value("isthmusView.shared.light.bar")
        self.assertEqual(bar, next(i for i, b in enumerate(self.bars(data, 1)) if b[5] > at))
        key("ArrowLeft")
        self.assertEqual(self.value("isthmusView.shared.light.bar"), max(0, bar - 1))
        self.value("document.activeElement.blur()")
        key("p")
        self.assertEqual(self.value("isthmusView.shared.cursor"), data.head["steps"][1]["peak_node"])
        key("+")
        self.assertLess(self.value("isthmusView.shared.stretch.width"), 0.71 * data.head["step_ns"])
        key("0")
        self.assertTrue(self.value("isthmusView.shared.stretch.isWhole()"))
        key("Escape")
        self.assertEqual(self.texts("#card h2"), ["Selected"])
        self.browser.key("/", text="")
        self.browser.type("softmax")
        self.assertGreater(self.value("isthmusView.search.nodes.length"), 0)
        key("Enter")
        self.assertEqual(self.card()["device"], "cpu:1")
        self.check_quiet()

    def test_windows_and_colours(self):
        self.pipeline()
        for width in 400, 1200:
            for scheme in "dark", "light":
                self.browser.resize(width, 900)
                self.browser.prefer(scheme)
                self.wait_for(f"document.documentElement.dataset.theme === {scheme!r}")
                self.value(FRAME)
                self.assertLessEqual(self.value("document.documentElement.scrollWidth"), width)
                self.assertGreater(self.value("isthmusView.places.schedule.width"), 300)
        self.check_quiet()


class Large(InChromium):
    """Graphs of 100,000 nodes and more. Prints what it measures."""

    def measure(self, *args):
        data, seconds = self.show(*args)
        size = os.path.getsize(self.path("page.html")) / 1e6
        frames = [self.scroll(share) for share in (1, 0.3, 0.03, 0.001)] + [self.scroll_rows()]
        heap = self.value("(gc(), performance.memory.usedJSHeapSize / 2 ** 20)")
        blocks = self.value("isthmusView.shared.step.blocks.count")
        nodes = data.head["steps"][0]["nodes"]
        print(f"\n    {nodes} nodes, {2 * blocks} events: {size:.1f} MB, open in {seconds:.2f} s, "
              f"frames of {max(frames):.0f} ms at the 95th percentile, heap of {heap:.0f} MiB")
        return nodes, blocks, size, seconds, max(frames), heap

    def scroll(self, share):
        """Scrolls by a frame at a time; returns the 95th percentile of the time from frame to frame, in ms."""
        return self.value(f"""(async () => {{
            const v = isthmusView, gaps = [], frame = () => new Promise(done => requestAnimationFrame(done));
            v.shared.move(s => s.set(s.all * 0.2, s.all * {share} * 0.8));
            await frame(); await frame();
            let last = performance.now();
            for (let i = 0; i < 100; ++i) {{
              v.shared.move(s => s.pan((i < 50 ? 1 : -1) * s.width / 60));
              await frame();
              const now = performance.now();
              gaps.push(now - last);
              last = now;
            }}
            return gaps.sort((a, b) => a - b)[95];
        }})()""")

    def scroll_rows(self):
        """The same for the rows of the graph, with thousands of them open."""
        return self.value("""(async () => {
            const g = isthmusView.graph, gaps = [], frame = () => new Promise(done => requestAnimationFrame(done));
            while (g.modules.openLevel(5000)) {}
            g.refold();
            await frame(); await frame();
            let last = performance.now();
            for (let i = 0; i < 100; ++i) {
              g.scrollBy(57);
              await frame();
              const now = performance.now();
              gaps.push(now - last);
              last = now;
            }
            return gaps.sort((a, b) => a - b)[95];
        })()""")

    def test_100_000_nodes(self):
        self.run_ok("zoo", "mlp", "--depth=14300", "--batch=64", "--width=16", "-o", "deep.isth")
        nodes, _, size, seconds, frame, _ = self.measure("deep.isth", "--loss=mean")
        self.assertGreater(nodes, 100000)
        self.assertLess(size, 12)
        self.assertLess(seconds, 3 * PATIENCE)
        self.assertLess(frame, 33 * PATIENCE)

    def test_a_million_events(self):
        self.run_ok("zoo", "mlp", "--depth=80000", "--batch=8", "--width=8", "-o", "deep.isth")
        _, blocks, _, _, frame, heap = self.measure("deep.isth", "--loss=mean")
        self.assertGreater(2 * blocks, 10**6)
        self.assertLess(heap, 300)
        self.assertLess(frame, 33 * PATIENCE)


if __name__ == "__main__":
    chromium.or_skip()
    command.main()
