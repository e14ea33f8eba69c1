// --- Search: nodes by a part of their name, or by their op

class Search {
  static mostShown = 40;

  constructor(shared, graph) {
    this.shared = shared;
    this.graph = graph;
    this.input = byId("search");
    this.list = byId("found");
    this.nodes = [];
    this.at = -1; // the match that Enter went to
    this.input.addEventListener("input", () => this.run());
    this.input.addEventListener("keydown", e => this.key(e));
  }

  run() {
    const text = this.input.value.trim().toLowerCase();
    this.nodes = text ? this.find(text) : [];
    this.at = -1;
    this.shared.matches = text ? this.nodes : null;
    this.shared.tell("light");
    this.show(text);
  }

  // The nodes whose op is called `text`, or whose name has it, in order.
  find(text) {
    const {step} = this.shared, byOp = step.ops.map(op => op.name.toLowerCase() === text), found = [];
    const isNamed = this.namedBy(text);
    for (let node = 0; node < step.numNodes; ++node)
      if (byOp[step.opIndex[node]] || isNamed(node)) found.push(node);
    return found;
  }

  // Returns a function that tells whether a node's name has `text`.
  namedBy(text) {
    const {step} = this.shared;
    if (this.all === undefined) this.all = step.nameBytes.every(b => b < 128) ? step.allNames().toLowerCase() : null;
    if (this.all === null) return node => shownName(step.nodeName(node)).toLowerCase().includes(text);
    // Names are one after the other, a byte a letter, so that the next place of the text, which is found once,
    // serves all names before it.
    let next = this.all.indexOf(text);
    return node => {
      const start = step.nameStarts[step.result[node]], end = step.nameStarts[step.result[node] + 1];
      if (next >= 0 && next < start) next = this.all.indexOf(text, start);
      return next >= 0 && next + text.length <= end;
    };
  }

  show(text) {
    const {step} = this.shared;
    this.list.hidden = !text;
    this.list.replaceChildren(
      element("div", {class: "faint"},
        this.nodes.length ? countText(this.nodes.length, "node") + "; Enter goes to the next" : "nothing of this name"),
      ...this.nodes.slice(0, Search.mostShown)
        .map((node, i) => element("button", {class: "link", onclick: () => this.go(i)},
               nameElement(step.nodeName(node)), element("span", {class: "faint"}, " " + step.opName(node)))));
  }

  go(index) {
    this.at = index;
    const node = this.nodes[index];
    this.graph.modules.openTo(node);
    this.graph.refold();
    this.shared.showNode(node);
    this.shared.select({node});
    this.shared.tell("view");
  }

  key(e) {
    if (e.key === "Enter" && this.nodes.length)
      this.go((this.at + (e.shiftKey ? this.nodes.length - 1 : 1)) % this.nodes.length);
    else if (e.key === "Escape") this.clear();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  clear() {
    this.input.value = "";
    this.run();
    this.input.blur();
  }
}
