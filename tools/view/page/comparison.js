// --- Differences between two steps: figures, bytes at the peaks, tensors that are handled otherwise

class Comparison {
  constructor(shared, card, facts, other) {
    this.shared = shared;
    this.card = card;
    this.facts = facts;
    this.other = other;
    this.place = byId("list-comparison");
    this.isShown = false;
    byId("tab-comparison").hidden = !(other instanceof Step);
  }

  show() {
    if (this.isShown) return;
    this.isShown = true;
    const differences = this.differences();
    this.place.replaceChildren(this.figures(), this.kinds(),
      element("h3", {}, countText(differences.length, "tensor") + " handled otherwise, the largest first"),
      element("table", {class: "tensors"},
        ...differences.slice(0, MOST_LISTED)
          .map(d => element("tr", {},
                 element("td", {}, this.card.valueLink(d.value),
                   element("div", {class: "faint"}, d.here + "; there " + d.there)),
                 element("td", {class: "figure"}, bytesText(d.bytes))))),
      element("p", {class: "faint"},
        differences.length > MOST_LISTED ? "and " + numberText(differences.length - MOST_LISTED) + " smaller ones"
                                         : ""));
  }

  figures() {
    const a = this.shared.step.figures, b = this.other.figures,
          row = (name, key, text) => element("tr", {}, element("th", {}, name),
            ...[a, b].map(f => element("td", {class: "figure"}, typeof f[key] === "number" ? text(f[key]) : "-")));
    return element("table", {},
      element("tr", {}, element("th", {}, ""),
        ...[this.shared.step, this.other].map(s => element("th", {class: "figure"}, nameElement(s.name)))),
      element("tr", {}, element("th", {}, "peak"),
        ...[this.shared.step, this.other].map(s => element("td", {class: "figure"}, bytesText(s.peakBytes)))),
      row("arena", "arena_bytes", bytesText),
      row("added time", "recompute_overhead", share => (100 * share).toFixed(1) + " %"),
      row("nodes", "nodes", numberText), row("clones", "clones", numberText));
  }

  kinds() {
    const at = (step, kind) => (step.live[step.kinds.indexOf(kind)] || [])[step.peakNode] || 0;
    const rows =
      STACK_ORDER.map(kind => [kind, at(this.shared.step, kind), at(this.other, kind)]).filter(([, a, b]) => a || b);
    return element("table", {}, element("tr", {}, element("th", {}, "at the peak")),
      ...rows.map(([kind, a, b]) => element("tr", {}, element("td", {}, this.card.swatch(kind), this.facts.kinds[kind]),
                    element("td", {class: "figure"}, bytesText(a)), element("td", {class: "figure"}, bytesText(b)))));
  }

  // Tensors of both graphs, by name, whose instances are not of the same kinds.
  differences() {
    const here = instancesByOriginal(this.shared.step), there = new Map(), out = [];
    for (const [value, kinds] of instancesByOriginal(this.other)) there.set(this.other.valueName(value), kinds);
    for (const [value, own] of here) {
      const others = there.get(this.shared.step.valueName(value));
      if (!others || own.text === others.text) continue;
      out.push(
        {value, bytes: Math.max(own.bytes, others.bytes), here: this.words(own.text), there: this.words(others.text)});
    }
    return out.sort((a, b) => b.bytes - a.bytes);
  }

  // "kept", or how often the tensor came back, from the kinds of its instances.
  words(kinds) {
    const [first, ...again] = kinds.split(",").map(Number), counts = new Map();
    for (const kind of again) counts.set(kind, (counts.get(kind) || 0) + 1);
    if (!again.length) return this.facts.kinds[first];
    return Array
      .from(counts,
        ([kind, n]) => this.facts.kinds[kind] +
          (n === 1      ? " once"
              : n === 2 ? " twice"
                        : " " + n + " times"))
      .join(", ");
  }
}

// For each value before the plan, the kinds of its instances in order, and the bytes of the largest.
function instancesByOriginal(step) {
  const found = new Map();
  step.originals.forEach((original, value) => {
    const block = step.blocks.ofValue(value);
    if (block < 0) return;
    const entry = found.get(original), kind = String(step.blocks.kind[block]), bytes = step.blocks.bytes[block];
    if (entry) found.set(original, {text: entry.text + "," + kind, bytes: Math.max(entry.bytes, bytes)});
    else found.set(original, {text: kind, bytes});
  });
  return found;
}
