// --- The card: what is known of the selected tensor or node

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
    if (standIn) {
      rows.push(this.row("came back", step.wayText(standIn) + ", " + timeText(step.us[maker])));
      const original = value >= 0 ? step.originals[value] : -1;
      if (original >= 0 && original !== value) rows.push(this.row("stands for", nameElement(step.valueName(original))));
    } else {
      rows.push(this.row("takes", timeText(step.us[maker])));
    }
    const others = value < 0 ? [] : step.instancesOf(value).filter(v => v !== value);
    if (others.length)
      rows.push(this.row("also lives as",
        ...others.slice(0, 20).flatMap(
          (v, i) => [i ? ", " : "",
            element("button", {class: "link", onclick: () => this.shared.select({block: step.blocks.ofValue(v)})},
              nameElement(step.valueName(v)))])));
    return rows;
  }

  decisionOf(value) {
    const d = value >= 0 && this.decisions.get(this.shared.step.originals[value]);
    return d ? [element("p", {class: "why"}, d.text), element("p", {class: "why faint"}, d.why)] : [];
  }

  ofNode(node) {
    const {step} = this.shared;
    const rows = [
      this.row("op", step.opName(node)), ...this.sourceRow(node), this.row(step.nodeWord, numberText(node + 1) + " of " + numberText(step.numNodes)),
      this.row("way", step.wayText(step.way(node))), this.row("takes", timeText(step.us[node])),
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
    const shown = nodes.slice(0, 12).flatMap((node, i) => [i ? ", " : "", this.nodeLink(node)]);
    return nodes.length > 12 ? [...shown, " and " + (nodes.length - 12) + " more"] : shown;
  }
  swatch(kind) {
    const s = element("span", {class: "swatch"});
    s.style.background = this.theme.kind(kind);
    return s;
  }
}
