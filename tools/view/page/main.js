// --- The page: reads its data, makes the panels, and tells them what changed

class View {
  constructor(columns) {
    const facts = columns.head;
    this.facts = facts;
    this.theme = new Theme();
    const isStaged = facts.works !== undefined; // a step for each device
    const steps = (isStaged ? facts.steps : facts.steps.slice(0, 1)).map(s => new Step(s, columns));
    const stretch = new Stretch(steps[0].axis);
    this.everyShared = steps.map(step => new Shared(step, stretch));
    this.shared = this.everyShared[0]; // of the step that list, card and graph are about
    this.modules = new Map();          // by step, once it is looked at
    this.makePanels(columns, isStaged ? null : facts.steps[1]);
    this.graph = new GraphPanel(this.shared, this.theme, this.modulesOf(this.shared.step));
    this.card = new Card(this.shared, this.theme, facts);
    this.live = new LiveList(this.shared, this.card, facts);
    this.price = new PriceList(this.shared, this.card, facts);
    this.comparison = new Comparison(this.shared, this.card, facts, this.other);
    this.search = new Search(this.shared, this.graph);
    this.keys = new Keys(this);
    this.listenToChanges();
    this.listenToButtons();
    if (isStaged) showStagesSummary(facts);
    else showSummary(facts, this.shared.step, this.other);
    this.theme.changed();
  }

  // Live bytes and arena: of one device, with another step beside it if there is one, or of each.
  makePanels(columns, second) {
    const {facts, theme, shared} = this, canvasOf = id => byId(id).querySelector("canvas");
    this.other = !second ? null : second.is_whole ? new Step(second, columns) : new Profile(second, columns);
    this.inStep = this.other ? new InStep(columns, shared.step, this.other) : null;
    if (shared.step.times) {
      this.places = new Places(this, columns, (place, target) => this.everyShared[place].select(target));
      ({profile: this.profile, arena: this.arena} = this.places.parts[0]);
      return;
    }
    this.profile = new ProfilePanel(canvasOf("profile"), shared, theme,
      {kinds: facts.kinds, budget: facts.budget_bytes, other: this.other, inStep: this.inStep});
    this.arena = new ArenaPanel(canvasOf("arena"), shared, theme, facts.kinds);
  }

  // Apart from the constructor, whose packed data these functions would keep in memory.
  listenToChanges() {
    this.everyShared.forEach((shared, place) => shared.listen(what => this.changed(what, place)));
    this.theme.listener = () => this.themed();
  }

  modulesOf(step) {
    if (!this.modules.has(step)) this.modules.set(step, new Modules(step));
    return this.modules.get(step);
  }

  // Makes list, card and graph those of another device.
  lookAt(place) {
    if (this.shared === this.everyShared[place]) return;
    this.shared.select(null);
    this.shared = this.everyShared[place];
    this.places.schedule.place = place;
    ({profile: this.profile, arena: this.arena} = this.places.parts[place]);
    for (const part of [this.card, this.live, this.search]) part.shared = this.shared;
    this.search.clear();
    this.graph.lookAt(this.shared, this.modulesOf(this.shared.step));
    byId("graph-hint").textContent = this.shared.step.name;
  }

  changed(what, place) {
    if (what === "light" && this.everyShared[place].light) this.lookAt(place);
    if (this.everyShared[place] !== this.shared && what !== "view") return this.places.request();
    this.requestPanels();
    if (what !== "view") this.graph.request();
    if (what === "light") {
      this.card.show();
      if (this.shared.light) this.graph.reveal(this.graph.modules.rowOf(this.shared.light.anchor));
    }
    if (what === "light" || what === "cursor") this.live.show();
  }

  requestPanels() {
    if (this.places) return this.places.request();
    this.profile.request();
    this.arena.request();
  }

  themed() {
    const steps = this.everyShared.map(s => s.step);
    if (this.places) {
      this.places.themed();
      showWorks(this.facts, this.everyShared, this.theme);
    } else {
      this.arena.themed();
    }
    showLegend(byId(this.places ? "place-legend" : "legend"), this.facts, steps, this.theme, this.other);
    this.card.show();
    this.live.show();
    this.requestPanels();
    this.graph.request();
  }

  fit() {
    this.shared.move(s => s.fit());
    for (const arena of this.places ? this.places.parts.map(p => p.arena) : [this.arena]) arena.setOffsets(0, arena.all);
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
