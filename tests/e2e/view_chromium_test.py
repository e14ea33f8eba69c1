"""Looks at the page of `view` in Chromium: what it shows is what the report says, it answers the pointer and the keys, no
request leaves it, odd names are text, and large graphs open and scroll fast. `tools/test --view` runs it."""

import os
import time
import unittest

import chromium
import command
from cli_cases import Case
from page_data import PageData

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
        return self.value(f"(() => {{ const r = isthmusView.{panel}.canvas.getBoundingClientRect(); return [r.left + {x} * r.width, r.top + {y} * r.height] }})()")

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
        chips = dict(self.value("Array.from(document.querySelectorAll('.chip'), c => [c.firstChild.textContent, c.lastChild.textContent.trim()])"))
        self.assert_bytes(chips["peak"], peak)
        self.assert_bytes(chips["budget"], data.head["budget_bytes"])
        self.assert_bytes(chips["arena"], figures["arena_bytes"])
        self.assertIn(kind, self.texts("#legend .key"))
        # The list is that of the peak, to the byte.
        live = {data.head["kinds"].index(k): of[step["peak_node"]] for k, of in data.live_by_kind().items() if of[step["peak_node"]]}
        rows = self.value("Array.from(document.querySelectorAll('.kinds tr'), r => [+r.dataset.kind, +r.dataset.bytes])")
        self.assertEqual(dict(rows), live)
        self.assertEqual(sum(live.values()), peak)
        listed = self.value("(() => { const s = isthmusView.shared.step; return s.blocks.liveAt(s.peakNode).reduce((sum, i) => sum + s.blocks.bytes[i], 0) })()")
        self.assertEqual(listed, peak)
        # The picture has the colour of the kind.
        colour = self.value(f"isthmusView.theme.kind({data.head['kinds'].index(kind)})")
        self.assertTrue(any(self.has_colour(panel, colour) for panel in ("profile", "arena")), kind)

    def has_colour(self, panel, colour):
        return self.value(f"""(() => {{ const p = isthmusView.{panel}, d = p.context.getImageData(0, 0, p.canvas.width, p.canvas.height).data, [r, g, b] = rgbOf({colour!r});
            for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b) return true; return false }})()""")

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
        x, y, name = self.value("""(() => { const v = isthmusView, s = v.shared.step, i = s.blocks.liveAt(s.peakNode).find(i => s.blocks.kind[i] === 0);
            const [x, y, w, h] = v.arena.rectOf(i), r = v.arena.canvas.getBoundingClientRect();
            return [r.left + x + w / 2, r.top + y + h / 2, s.valueName(s.blocks.value[i] - 1)] })()""")
        self.browser.mouse("mouseMoved", x, y)
        self.assertIn(name, " ".join(self.texts("#tip")))
        self.browser.click(x, y)
        self.value(FRAME)
        self.assertEqual(self.texts("#card h2"), [name])
        rows = dict(self.value("Array.from(document.querySelectorAll('#card tr'), r => [r.children[0].textContent, r.children[1].textContent])"))
        self.assertLessEqual({"shape", "bytes", "kind", "made by", "last reader", "lives", "offset"}, rows.keys())
        light = self.value("({node: isthmusView.shared.light.node, readers: isthmusView.shared.light.readers.length, rows: isthmusView.graph.lit.size})")
        self.assertGreater(light["readers"], 0)
        self.assertGreater(light["rows"], 0)
        # A click on nothing clears it; so does Escape.
        self.value("isthmusView.shared.select(null)")
        self.browser.click(*self.at("profile", 0.5, 0.8))
        self.assertEqual(len(self.texts("#card tr")) > 0, True)
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
        self.browser.click(*self.value("(() => { const g = isthmusView.graph, r = g.canvas.getBoundingClientRect(); return [r.left + 30, r.top + g.yOf(g.rows.findIndex(r => r.name === 'down1')) + 10] })()"))
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
        ops = self.value("(() => { const s = isthmusView.shared.step; let n = 0; for (let i = 0; i < s.numNodes; ++i) n += s.opName(i) === 'conv_transpose' || s.nodeName(i).includes('conv_transpose'); return n })()")
        self.assertEqual(found, ops)
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
            self.wait_for(f"window.matchMedia('(prefers-color-scheme: {scheme})').matches && document.documentElement.dataset.theme === {scheme!r}")
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
            self.assertTrue(self.value("['profile', 'arena', 'graph'].every(p => isthmusView[p].width > 300 && isthmusView[p].height > 100)"))
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

    def test_names_are_text(self):
        names = ["</script><script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", "a\x1b[31mb\n", "\u202egnp.exe", "\u05e9\u05dc\u05d5\u05dd"]
        spelt = ['"' + "".join(f"\\{b:02x}" for b in n.encode()) + '"' for n in names]
        lines = [f"  %{new} = tanh(%{old})" for old, new in zip(["x", *spelt], spelt)]
        self.write("evil.isth", "isthmus 2\ngraph @g {\n  param %x : f32[64] = fill {value = 1}\n" + "\n".join(lines) + f"\n  output %{spelt[-1]}\n}}\n")
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


class Large(InChromium):
    """Graphs of 100,000 nodes and more. Prints what it measures."""

    def measure(self, *args):
        data, seconds = self.show(*args)
        size = os.path.getsize(self.path("page.html")) / 1e6
        frames = [self.scroll(share) for share in (1, 0.3, 0.03, 0.001)] + [self.scroll_rows()]
        heap = self.value("(gc(), performance.memory.usedJSHeapSize / 2 ** 20)")
        blocks = self.value("isthmusView.shared.step.blocks.count")
        nodes = data.head["steps"][0]["nodes"]
        print(f"\n    {nodes} nodes, {2 * blocks} events: {size:.1f} MB, open in {seconds:.2f} s, frames of {max(frames):.0f} ms at the 95th percentile, heap of {heap:.0f} MiB")
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
