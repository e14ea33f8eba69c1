// --- The head of the page: the figures of the plan

function showSummary(facts, step, other) {
  byId("title").replaceChildren(nameElement(facts.model === "-" ? facts.graph : facts.model));
  const f = step.figures, before = other ? other.peakBytes : f.baseline_peak_bytes || 0;
  const chips = step.snapshot ? snapshotChips(step.snapshot, "") : [["peak", bytesText(step.peakBytes)]];
  if (before > 0 && before !== step.peakBytes)
    chips.push([
      other ? shownName(other.name) : "without a plan",
      bytesText(before) + " (this is " + (100 * step.peakBytes / before).toFixed(1) + " %)"
    ]);
  if (other && other.snapshot) chips.push(...snapshotChips(other.snapshot, "there "));
  if (facts.budget_bytes) chips.push(["budget", bytesText(facts.budget_bytes)]);
  if (f.arena_bytes !== undefined && !facts.offsets) chips.push(["arena", bytesText(f.arena_bytes)]);
  if (typeof f.recompute_overhead === "number" && f.recompute_overhead !== 0)
    chips.push(["added time", (100 * f.recompute_overhead).toFixed(1) + " %"]);
  if (!step.snapshot) chips.push(["nodes", numberText(step.numNodes)]);
  if (typeof f.persistent_bytes === "number") chips.push(["parameters and inputs", bytesText(f.persistent_bytes)]);
  chips.push(["policy", f.policy_used], ["target", facts.target]);
  showChips(chips);
  const title = byId("arena").querySelector("h2");
  if (step.snapshot) title.firstChild.textContent = "Segments ";
  if (facts.offsets) byId("arena-hint").textContent = facts.offsets;
}

// Pairs of a name and a text; those without a text are left out.
function showChips(chips) {
  byId("summary").replaceChildren(...chips.filter(([, text]) => text).map(([name,
    text]) => element("span", {class: "chip"}, element("b", {}, name), " " + text)));
}

// What an allocator had reserved and used; `where`: of the step that is drawn beside this one.
function snapshotChips(s, where) {
  const chips = [
    [where + "reserved", bytesText(s.reserved_bytes)], [where + "allocated", bytesText(s.allocated_bytes)],
    [where + "unused at the peak", bytesText(s.unused_bytes)], [where + "segments at the end", numberText(s.segments)],
    [where + "events", numberText(s.events)]
  ];
  if (s.devices > 1) chips.push([where + "device", s.device + ", the fullest of " + s.devices]);
  if (s.out_of_memory) chips.push([where + "out of memory", countText(s.out_of_memory, "time")]);
  if (s.unmatched) chips.push([where + "not understood", countText(s.unmatched, "event")]);
  return chips;
}

// The kinds of live bytes that one of the steps has; `other`: drawn beside them, or null.
function showLegend(place, facts, steps, theme, other) {
  place.replaceChildren(
    ...STACK_ORDER.filter(kind => steps.some(step => step.kinds.includes(kind)) || other instanceof Step && other.kinds.includes(kind))
      .map(kind => element("span", {class: "key"}, swatchElement(theme.kind(kind)), facts.kinds[kind])),
    other && !(other instanceof Step)
      ? element("span", {class: "key"}, element("span", {class: "line"}), nameElement(other.name))
      : "");
}
