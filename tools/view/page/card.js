// --- The card: what is known of the selected tensor or node

const MOST_OF_BAR = 25; // nodes of a bar that are listed

class Card {
  constructor(shared, theme, facts) {
    this.shared = shared;
    this.theme = theme;
    this.facts = facts;
    this.decisions = new Map((facts.decisions || []).map(d => [d.value, d]));
    this.place = byId("card");
    this.show();
  }

  show() {
    const {light} = this.shared;
    if (!light)
      this.place.replaceChildren(element("h2", {}, "Selected"),
        element("p", {class: "faint"},
          "Click a rectangle, a row or a column. Arrow keys move over the nodes, / finds a name, ? lists the keys."));
    else if (light.bar >= 0) this.place.replaceChildren(...this.ofBar(light.bar));
    else if (light.block >= 0) this.place.replaceChildren(...this.ofBlock(light));
    else this.place.replaceChildren(...this.ofNode(light.node));
  }

  row(name, ...content) { return element("tr", {}, element("th", {}, name), element("td", {}, ...content)); }
  nodeLink(node) {
    return element("button", {class: "link", onclick: () => this.shared.select({node})},
      nameElement(this.shared.step.nodeName(node)));
  }
  nodeText(node) {
    return [this.nodeLink(node), " (" + this.shared.step.opName(node) + ", node " + numberText(node + 1) + ")"];
  }

  ofBlock({block, value, readers}) {
    const {step} = this.shared, b = step.blocks, maker = b.maker[block];
    const rows = [this.row("bytes", bytesText(b.bytes[block]) + " (" + numberText(b.bytes[block]) + ")")];
    if (value >= 0) rows.unshift(this.row("shape", step.typeText(value)));
    rows.push(this.row("kind", this.swatch(b.kind[block]), this.facts.kinds[b.kind[block]]));
    const isInput = value >= 0 && step.makerOf(value) < 0;
    if (!isInput) rows.push(this.row("made by", ...this.nodeText(maker)), ...this.sourceRow(maker));
    if (readers.length) rows.push(this.row(step.snapshot ? "freed by" : "last reader", ...this.nodeText(readers[readers.length - 1])));
    if (readers.length > 1) rows.push(this.row("all readers", ...this.several(readers)));
    rows.push(this.row("lives",
      countText(b.end[block] - b.begin[block], step.nodeWord) + ", " + numberText(b.begin[block] + 1) + " to " +
        numberText(b.end[block])));
    if (b.isPlaced(block))
      rows.push(
        this.row("offset", bytesText(b.offsetOf(block)) + " to " + bytesText(b.offsetOf(block) + b.bytes[block])));
    if (!isInput) rows.push(...this.wayRows(maker, value));
    const title = value >= 0 ? nameElement(step.valueName(value))
                             : element("span", {}, "workspace of ", nameElement(step.nodeName(maker)));
    return [element("h2", {}, title), element("table", {}, ...rows), ...this.decisionOf(value)];
  }

  // The line of the program that the node comes from.
  sourceRow(node) {
    const source = this.shared.step.sourceOf(node);
    return source ? [this.row("line", element("bdi", {class: "source"}, shownName(source)))] : [];
  }

  // How the value came back, and at what price.
  wayRows(maker, value) {
    const {step} = this.shared, rows = [], standIn = step.standIn[maker];
    const time = step.us[maker] ? timeText(step.us[maker]) : ""; // a transfer takes none of the device's
    if (standIn) {
      rows.push(this.row(standIn === CHUNK ? "runs as" : "came back", [step.wayText(standIn), time].filter(Boolean).join(", ")));
      const original = value >= 0 ? step.originals[value] : -1;
      if (original >= 0 && original !== value)
        rows.push(this.row(standIn === CHUNK ? "part of" : "stands for", nameElement(step.valueName(original))));
    } else if (time) {
      rows.push(this.row("takes", time));
    }
    const others = value < 0 ? [] : step.instancesOf(value).filter(v => v !== value);
    if (others.length)
      rows.push(this.row(standIn === CHUNK ? "other parts" : "also lives as",
        ...others.slice(0, 20).map(v => element("div", {}, this.valueLink(v))),
        others.length > 20 ? "and " + (others.length - 20) + " more" : null));
    return rows;
  }

  decisionOf(value) {
    const d = value >= 0 && this.decisions.get(this.shared.step.originals[value]);
    return d ? [element("p", {class: "why"}, d.text), element("p", {class: "why faint"}, d.why)] : [];
  }

  // The device, the micro-batch and the time of a node of a step over several devices.
  deviceRows(node) {
    const {step} = this.shared, {times} = step;
    if (!times) return [];
    const rows = [this.row("device", step.name)];
    if (times.batch[node]) rows.push(this.row("micro-batch", numberText(times.batch[node])));
    return [...rows, this.timeRow(times.begin[node], times.end[node])];
  }
  timeRow(begin, end) {
    const at = ns => timeText(ns / 1000);
    return this.row("runs", end === begin ? "at " + at(begin) : at(begin) + " to " + at(end));
  }

  // A bar of the schedule: which nodes, and how long.
  ofBar(bar) {
    const {step} = this.shared, {times} = step, nodes = times.barNodes(bar), own = [];
    const begin = times.barBegin(bar), end = times.barEnd(bar);
    const rows = [this.row("device", step.name)];
    if (times.bars.batch[bar]) rows.push(this.row("micro-batch", numberText(times.bars.batch[bar])));
    rows.push(this.timeRow(begin, end), this.row("takes", timeText((end - begin) / 1000)),
      this.row("nodes", numberText(nodes.length) + ", from " + numberText(nodes[0] + 1) + " to " +
        numberText(nodes[nodes.length - 1] + 1)));
    for (const node of nodes) own.push({node, us: (times.end[node] - times.begin[node]) / 1000});
    own.sort((a, b) => b.us - a.us || a.node - b.node);
    return [
      element("h2", {}, this.facts.works[times.bars.kind[bar]]), element("table", {}, ...rows),
      element("h3", {}, "Nodes, the slowest first"),
      element("table", {class: "tensors"},
        ...own.slice(0, MOST_OF_BAR).map(({node, us}) => element("tr", {}, element("td", {}, this.nodeLink(node),
          element("div", {class: "faint"}, step.opName(node))), element("td", {class: "figure"}, timeText(us))))),
      element("p", {class: "faint"}, own.length > MOST_OF_BAR ? "and " + countText(own.length - MOST_OF_BAR, "faster one") : "")
    ];
  }

  ofNode(node) {
    const {step} = this.shared;
    const rows = [
      this.row("op", step.opName(node)), ...this.sourceRow(node), this.row(step.nodeWord, numberText(node + 1) + " of " + numberText(step.numNodes)),
      ...this.deviceRows(node), this.row("way", step.wayText(step.way(node))), this.row("takes", timeText(step.us[node])),
      this.row("live", bytesText(step.total[node]))
    ];
    const values = (list, most) =>
      list.slice(0, most).map(v => element("div", {}, this.valueLink(v), " " + step.typeText(v)));
    const operands = Array.from(new Set(step.operandsOf(node)));
    if (operands.length)
      rows.push(this.row(
        "reads", ...values(operands, 12), operands.length > 12 ? "and " + (operands.length - 12) + " more" : null));
    rows.push(this.row("makes", ...values(step.resultsOf(node), 12)));
    const readers = Array.from(new Set(this.shared.light.readers));
    if (readers.length) rows.push(this.row("read by", ...this.several(readers)));
    for (const i of step.blocks.ofNode(node))
      if (!step.blocks.value[i]) rows.push(this.row("workspace", bytesText(step.blocks.bytes[i])));
    return [
      element("h2", {}, nameElement(step.nodeName(node))), element("table", {}, ...rows),
      ...this.decisionOf(step.result[node])
    ];
  }

  valueLink(v) {
    const {step} = this.shared, block = step.blocks.ofValue(v), maker = step.makerOf(v);
    const kind = this.shared.step.inputKinds.get(v);
    if (block < 0 && maker < 0) return element("span", {}, kind ? kind + " " : "", nameElement(step.valueName(v)));
    return element("button", {class: "link", onclick: () => this.shared.select(block >= 0 ? {block} : {node: maker})},
      nameElement(step.valueName(v)));
  }
  several(nodes) {
    const shown = nodes.slice(0, 12).map(node => element("div", {}, this.nodeLink(node)));
    return nodes.length > 12 ? [...shown, "and " + (nodes.length - 12) + " more"] : shown;
  }
  swatch(kind) { return swatchElement(this.theme.kind(kind)); }
}
