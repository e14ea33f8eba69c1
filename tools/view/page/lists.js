// --- Lists: what lives at a node, and the price of memory

const MOST_LISTED = 60;

class LiveList {
  constructor(shared, card, facts) {
    this.shared = shared;
    this.card = card;
    this.facts = facts;
    this.place = byId("list-live");
  }

  show() {
    const {step, cursor} = this.shared;
    if (!step.numNodes) return;
    const live = step.blocks.liveAt(cursor), isPeak = cursor === step.peakNode;
    const bars = STACK_ORDER.map(kind => ({kind, bytes: (step.live[step.kinds.indexOf(kind)] || [])[cursor]}))
                   .filter(k => k.bytes)
                   .sort((a, b) => b.bytes - a.bytes);
    this.place.replaceChildren(element("p", {}, isPeak ? "At the peak, " : "At ", ...this.card.nodeText(cursor),
                                 ": " + bytesText(step.total[cursor]) + (step.snapshot ? "" : " in " + countText(live.length, "tensor"))),
      this.kindTable(bars, step.total[cursor]),
      element("table", {class: "tensors"}, ...live.slice(0, MOST_LISTED).map(i => this.tensorRow(i))),
      element("p", {class: "faint"},
        live.length > MOST_LISTED ? "and " + numberText(live.length - MOST_LISTED) + " smaller ones" : ""));
  }

  kindTable(bars, total) {
    return element("table", {class: "kinds"}, ...bars.map(({kind, bytes}) => {
      const bar = element("div", {class: "bar"});
      bar.style.width = Math.max(1, 100 * bytes / total) + "%";
      bar.style.background = this.card.theme.kind(kind);
      return element("tr", {"data-kind": kind, "data-bytes": bytes}, element("td", {}, this.facts.kinds[kind]),
        element("td", {class: "figure"}, bytesText(bytes)), element("td", {class: "bars"}, bar));
    }));
  }

  tensorRow(i) {
    const {step} = this.shared, b = step.blocks, value = b.value[i] - 1;
    const name = value >= 0 ? nameElement(step.valueName(value)) : element("span", {}, "workspace");
    return element("tr", {}, element("td", {}, this.card.swatch(b.kind[i])),
      element("td", {}, element("button", {class: "link", onclick: () => this.shared.select({block: i})}, name),
        element("div", {class: "faint"}, value >= 0 ? step.typeText(value) : step.opName(b.maker[i]))),
      element("td", {class: "figure"}, bytesText(b.bytes[i])));
  }
}

// The tensors that the plan brings back, with the price of a MiB, and those that could be.
class PriceList {
  constructor(shared, card, facts) {
    this.shared = shared;
    this.card = card;
    this.place = byId("list-price");
    this.facts = facts;
    byId("tab-price").hidden = !facts.decisions; // of a snapshot, or of several devices
    const decisions = facts.decisions || [];
    const mib = 2 ** 20, peak = shared.step.peakBytes;
    this.saved = decisions.filter(d => d.saved_bytes > 0).map(d => ({...d, price: d.us / (d.saved_bytes / mib)}));
    this.possible = decisions.filter(d => d.kept && d.eviction && d.eviction.peak_bytes < peak)
                      .map(d => ({
                        ...d,
                        saved_bytes: peak - d.eviction.peak_bytes,
                        us: d.eviction.us,
                        price: d.eviction.us / ((peak - d.eviction.peak_bytes) / mib)
                      }))
                      .sort((a, b) => a.price - b.price);
    this.neverWhole = facts.never_whole || [];
    this.usPerMib = facts.us_per_mib;
    this.show();
  }

  show() {
    const parts = [], curve = new Curve(this.facts);
    const advice = adviceOf(this.facts, this.shared.step, this.card, this.possible[0]);
    if (advice.length)
      parts.push(element("h3", {}, "What to do next"),
        element("ul", {class: "advice"}, ...advice.map(texts => element("li", {}, ...texts))));
    if (curve.isKnown) parts.push(element("h3", {}, "Budgets"), curve.element(), curve.table());
    if (curve.isKnown && !curve.hasOthers)
      parts.push(element("p", {class: "faint"},
        "Other budgets are tried where a plan is searched for (--budget), in steps of up to 3,000 nodes."));
    if (typeof this.usPerMib === "number")
      parts.push(element(
        "p", {}, "One MiB more or less at this budget is worth " + timeText(this.usPerMib) + " a step, by the bound."));
    const table = (title, list, empty) => {
      parts.push(element("h3", {}, title));
      if (!list.length) return parts.push(element("p", {class: "faint"}, empty));
      parts.push(element("table", {class: "tensors"},
        element("tr", {}, ...["tensor", "bytes", "time", "a MiB"].map(t => element("th", {}, t))),
        ...list.slice(0, MOST_LISTED)
          .map(d => element("tr", {title: d.text}, element("td", {}, this.card.valueLink(d.value)),
                 element("td", {class: "figure"}, bytesText(d.saved_bytes)),
                 element("td", {class: "figure"}, d.us || !d.link_us ? timeText(d.us) : timeText(d.link_us) + " link"),
                 element("td", {class: "figure"}, d.us ? timeText(d.price) : "-")))));
    };
    table("Not kept, the largest first", this.saved, "This plan keeps all tensors.");
    if (this.possible.length) table("Kept at the peak, the cheapest first", this.possible, "");
    if (this.neverWhole.length)
      parts.push(element("h3", {}, "Never whole: these run in chunks"),
        element("table", {class: "tensors"},
          ...this.neverWhole.map(
            v => element("tr", {}, element("td", {}, nameElement(this.shared.step.valueName(v.value))),
              element("td", {class: "figure"}, bytesText(v.bytes)),
              element("td", {}, v.chunks + " of " + bytesText(v.most_bytes))))));
    this.place.replaceChildren(...parts);
  }
}

function showTab(which) {
  for (const name of ["live", "price", "comparison"]) {
    byId("tab-" + name).setAttribute("aria-selected", String(name === which));
    byId("list-" + name).hidden = name !== which;
  }
}
