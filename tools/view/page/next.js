// --- The curve of budgets, and what to do next

function svgElement(tag, attributes, text) {
  const e = document.createElementNS(byId("drawn").namespaceURI, tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

function percentText(share) { return "+" + (100 * share).toFixed(1) + " %"; }

// Points of plans: their peaks to the right, what they add to a step upwards.
class Curve {
  constructor(facts) {
    this.points = (facts.curve || []).filter(p => typeof p.added === "number");
    this.hasOthers = this.points.some(p => !p.what);
    this.isKnown = new Set(this.points.map(p => p.peak_bytes)).size > 1;
  }

  static width = 320;
  static height = 150;

  element() {
    const {width, height} = Curve, left = 44, bottom = height - 20;
    const most = Math.max(...this.points.map(p => p.peak_bytes));
    const dearest = Math.max(1e-3, ...this.points.map(p => p.added));
    const x = bytes => left + bytes / most * (width - left - 14);
    const y = added => bottom - Math.max(0, added) / dearest * (bottom - 14);
    const svg = svgElement("svg", {viewBox: "0 0 " + width + " " + height, class: "curve", role: "img"});
    svg.append(svgElement("title", {}, "Added time by peak"),
      svgElement("path", {class: "axis", d: "M" + left + " 6V" + bottom + "H" + (width - 6)}),
      svgElement("text", {x: left - 4, y: y(dearest) + 4, "text-anchor": "end"}, percentText(dearest)),
      svgElement("text", {x: left - 4, y: bottom, "text-anchor": "end"}, "0"),
      svgElement("text", {x: width - 6, y: height - 6, "text-anchor": "end"}, bytesText(most)),
      svgElement("text", {x: left, y: height - 6}, "0"),
      svgElement("polyline", {points: this.points.map(p => x(p.peak_bytes) + "," + y(p.added)).join(" ")}));
    for (const p of this.points) {
      const mark = svgElement("circle", {cx: x(p.peak_bytes), cy: y(p.added), r: p.what ? 4 : 2.5});
      if (p.what === "this plan") mark.setAttribute("class", "own");
      mark.append(svgElement("title", {}, (p.what || "a plan") + ": " + bytesText(p.peak_bytes) + ", " + percentText(p.added)));
      svg.append(mark);
    }
    return svg;
  }

  table() {
    return element("table", {class: "prices"},
      element("tr", {}, ...["peak", "of all", "added", ""].map(t => element("th", {}, t))),
      ...this.points.map(p => element("tr", {"data-peak": p.peak_bytes, "data-added": p.added},
        element("td", {class: "figure"}, bytesText(p.peak_bytes)),
        element("td", {class: "figure"}, (100 * p.peak_bytes / this.points[0].peak_bytes).toFixed(0) + " %"),
        element("td", {class: "figure"}, percentText(p.added)), element("td", {}, p.what))));
  }
}

// Kinds of live bytes that no plan saves: gradients of parameters, other outputs, workspace.
const UNSAVED = [8, 9, 10];

// Advice that follows from the figures of the page.
function adviceOf(facts, step, card, cheapest) {
  const advice = [], {knee} = facts;
  if (knee) {
    const isBelow = step.peakBytes < knee.peak_bytes;
    advice.push(["The knee of the curve is a peak of " + bytesText(knee.peak_bytes) + ": above it a MiB less takes " +
      timeText(knee.us_per_mib_above) + " of a step, and below it " + timeText(knee.us_per_mib_below) + ". " +
      (isBelow ? "This plan is below it: a budget at the knee costs less for each MiB."
               : "This plan is not below it: a smaller budget, down to there, is cheap.")]);
  }
  if (cheapest)
    advice.push(["The cheapest MiB to save next: bring back ", card.valueLink(cheapest.value), ", " +
      timeText(cheapest.price) + " a MiB."]);
  const unsaved = UNSAVED.reduce(
    (sum, kind) => sum + ((step.live[step.kinds.indexOf(kind)] || [])[step.peakNode] || 0), 0);
  if (step.peakBytes && unsaved / step.peakBytes >= 0.3)
    advice.push([(100 * unsaved / step.peakBytes).toFixed(0) +
      " % of the peak are gradients of parameters, outputs and workspace, which no plan saves."]);
  if (facts.sweeps)
    advice.push(["The largest batch that fits: ", element("code", {}, facts.sweeps)]);
  return advice;
}
