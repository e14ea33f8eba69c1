// --- The head of the page: the figures of the plan

function showSummary(facts, step, other) {
  byId("title").replaceChildren(nameElement(facts.model === "-" ? facts.graph : facts.model));
  const f = facts.figures, before = other ? other.peakBytes : f.baseline_peak_bytes;
  const chips = [["peak", bytesText(step.peakBytes)]];
  if (before > 0 && before !== step.peakBytes)
    chips.push([
      other ? shownName(other.name) : "without a plan",
      bytesText(before) + " (this is " + (100 * step.peakBytes / before).toFixed(1) + " %)"
    ]);
  if (facts.budget_bytes) chips.push(["budget", bytesText(facts.budget_bytes)]);
  chips.push(["arena", bytesText(f.arena_bytes)]);
  if (typeof f.recompute_overhead === "number" && f.recompute_overhead !== 0)
    chips.push(["added time", (100 * f.recompute_overhead).toFixed(1) + " %"]);
  chips.push(["nodes", numberText(step.numNodes)], ["parameters and inputs", bytesText(f.persistent_bytes)],
    ["policy", f.policy_used], ["target", facts.target]);
  byId("summary").replaceChildren(...chips.filter(([, text]) => text).map(([name,
    text]) => element("span", {class: "chip"}, element("b", {}, name), " " + text)));
}

function showLegend(facts, step, theme, other) {
  const swatch = colour => {
    const s = element("span", {class: "swatch"});
    s.style.background = colour;
    return s;
  };
  byId("legend").replaceChildren(
    ...STACK_ORDER.filter(kind => step.kinds.includes(kind))
      .map(kind => element("span", {class: "key"}, swatch(theme.kind(kind)), facts.kinds[kind])),
    other && !(other instanceof Step)
      ? element("span", {class: "key"}, element("span", {class: "line"}), nameElement(other.name))
      : "");
}
