// --- The page: reads its data, makes the panels, and tells them what changed

class View {
  constructor(columns) {
    const facts = columns.head, [first, second] = facts.steps;
    this.facts = facts;
    const step = new Step(first, columns);
    const other = !second ? null : second.is_whole ? new Step(second, columns) : new Profile(second, columns);
    this.shared = new Shared(step);
    this.other = other;
    this.theme = new Theme();
    this.inStep = other ? new InStep(columns, step, other) : null;
    this.profile = new ProfilePanel(this.shared, this.theme, facts, other, this.inStep);
    this.arena = new ArenaPanel(this.shared, this.theme, facts);
    this.graph = new GraphPanel(this.shared, this.theme, new Modules(step));
    this.card = new Card(this.shared, this.theme, facts);
    this.live = new LiveList(this.shared, this.card, facts);
    this.price = new PriceList(this.shared, this.card, facts);
    this.comparison = new Comparison(this.shared, this.card, facts, other);
    this.search = new Search(this.shared, this.graph);
    this.keys = new Keys(this);
    this.shared.listen(what => this.changed(what));
    this.theme.listener = () => this.themed();
    this.listenToButtons();
    showSummary(facts, step, other);
    this.theme.changed();
  }

  changed(what) {
    this.profile.request();
    this.arena.request();
    if (what !== "view") this.graph.request();
    if (what === "light") {
      this.card.show();
      if (this.shared.light) this.graph.reveal(this.graph.modules.rowOf(this.shared.light.node));
    }
    if (what === "light" || what === "cursor") this.live.show();
  }

  themed() {
    this.arena.themed();
    showLegend(this.facts, this.shared.step, this.theme, this.other);
    this.card.show();
    this.live.show();
    for (const panel of [this.profile, this.arena, this.graph]) panel.request();
  }

  fit() {
    this.shared.move(s => s.fit());
    this.arena.setOffsets(0, this.arena.all);
  }
  toPeak() {
    showTab("live");
    this.shared.moveCursor(this.shared.step.peakNode);
  }

  listenToButtons() {
    const on = (id, act) => byId(id).addEventListener("click", act);
    on("fit", () => this.fit());
    on("to-peak", () => this.toPeak());
    on("theme", () => this.theme.toggle());
    on("help-button", () => byId("help").showModal());
    on("tab-live", () => showTab("live"));
    on("tab-price", () => showTab("price"));
    on("tab-comparison", () => {
      this.comparison.show();
      showTab("comparison");
    });
    on("open-all", () => {
      this.graph.modules.openLevel(20000);
      this.graph.refold();
    });
    on("close-all", () => {
      this.graph.modules.closeAll();
      this.graph.refold();
    });
    byId("colour-by").addEventListener("change", e => {
      this.graph.colourBy = e.target.value;
      this.graph.request();
    });
  }
}

async function main() {
  const data = byId("data");
  try {
    const columns = await unpacked(data.textContent);
    data.remove();
    window.isthmusView = new View(columns);
    document.documentElement.dataset.ready = "yes";
  } catch (e) {
    byId("trouble").hidden = false;
    byId("trouble").textContent = "This page cannot be shown: " + e.message + ". It needs a browser of 2023 or later.";
    throw e;
  }
}

main();
