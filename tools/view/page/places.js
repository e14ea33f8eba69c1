// --- A step over several devices: the schedule of all, and live bytes and arena of each

class Places {
  // `select(place, target)` lights something of a device.
  constructor(view, columns, select) {
    const {facts, theme} = view;
    this.all = view.everyShared;
    this.panels = [];
    byId("profile").hidden = byId("arena").hidden = true;
    byId("schedule").hidden = byId("places").hidden = false;
    document.querySelector("main").classList.add("staged");
    const canvas = byId("schedule").querySelector("canvas");
    canvas.style.height = Math.min(420, 16 + this.all.length * (this.all.length > 8 ? 22 : 38)) + "px";
    this.schedule = new SchedulePanel(canvas, this.all, new Messages(columns), theme, facts.works, select);
    const tops = {live: Math.max(...facts.steps.map(s => Math.max(s.figures.predicted_peak_bytes, s.budget_bytes || 0))),
      arena: Math.max(...facts.steps.map(s => s.arena_bytes))};
    this.parts = this.all.map((shared, i) => this.makePart(shared, facts.steps[i], facts.kinds, theme, tops));
  }

  makePart(shared, {figures, budget_bytes: budget}, kinds, theme, tops) {
    const canvasFor = label => element("canvas", {tabindex: 0, role: "img", "aria-label": label + " of " + shared.step.name});
    const live = canvasFor("Live bytes"), blocks = canvasFor("The arena");
    byId("places").append(element("section", {class: "panel place"},
      element("h2", {}, nameElement(shared.step.name), element("span", {class: "hint"}, Places.figuresText(figures, budget))), live, blocks));
    const profile = new ProfilePanel(live, shared, theme, {kinds, budget, top: tops.live});
    const arena = new ArenaPanel(blocks, shared, theme, kinds, tops.arena);
    profile.isScrolled = arena.isScrolled = () => true; // the wheel scrolls from device to device
    this.panels.push(profile, arena);
    return {profile, arena};
  }

  static figuresText(f, budget) {
    const all = f.busy_seconds + f.wait_before_seconds + f.wait_between_seconds + f.wait_after_seconds;
    const time = seconds => timeText(1e6 * seconds);
    return ["peak " + bytesText(f.predicted_peak_bytes) + (budget ? " of " + bytesText(budget) : ""),
      "without a plan " + bytesText(f.baseline_peak_bytes), "arena " + bytesText(f.arena_bytes),
      "parameters and inputs " + bytesText(f.persistent_bytes),
      "busy " + time(f.busy_seconds) + " (" + (100 * f.busy_seconds / (all || 1)).toFixed(1) + " %)",
      "waits " + time(f.wait_before_seconds) + " before, " + time(f.wait_between_seconds) + " between, " +
        time(f.wait_after_seconds) + " after"].join(" · ");
  }

  request() {
    this.schedule.request();
    for (const panel of this.panels) panel.request();
  }
  themed() {
    for (const {arena} of this.parts) arena.themed();
    this.request();
  }
}

function showStagesSummary(facts) {
  const f = facts.figures;
  byId("title").replaceChildren(nameElement(facts.model === "-" ? facts.graph : facts.model));
  const chips = [
    ["devices", numberText(facts.steps.length)], ["step, simulated", timeText(1e6 * f.predicted_step_seconds)],
    ["devices wait", (100 * f.bubble).toFixed(1) + " %"], ["largest peak", bytesText(f.predicted_peak_bytes)],
    ["without a plan", bytesText(f.baseline_peak_bytes)], ["budget", facts.budget_bytes ? bytesText(facts.budget_bytes) : ""],
    ["largest arena", bytesText(f.arena_bytes)], ["order", f.schedule], ["checkpoints", f.checkpoint],
    ["added time", f.recompute_overhead ? (100 * f.recompute_overhead).toFixed(1) + " %" : ""],
    ["messages", numberText(f.messages)], ["nodes", numberText(f.nodes)], ["target", facts.target]
  ];
  showChips(chips);
}

function showWorks(facts, places, theme) {
  const isUsed = facts.works.map((_, kind) => places.some(({step}) => step.times.bars.kind.includes(kind)));
  const keys = facts.works.map((name, kind) => [name, theme.way(WORK_WAYS[kind])]).filter((_, kind) => isUsed[kind]);
  byId("works").replaceChildren(
    ...[...keys, ["waits", theme.inks.grid]].map(([name, colour]) => element("span", {class: "key"}, swatchElement(colour), name)),
    element("span", {class: "key"}, "lines: messages"));
}
