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
    this.shared.matches = text ? new Set(this.nodes) : null;
    this.shared.tell("light");
    this.show(text);
  }

  find(text) {
    const {step} = this.shared, byOp = step.ops.map(op => op.name.toLowerCase() === text), found = [];
    for (let node = 0; node < step.numNodes; ++node)
      if (byOp[step.opIndex[node]] || shownName(step.nodeName(node)).toLowerCase().includes(text)) found.push(node);
    return found;
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
    this.shared.stretch.show(node, node + 1);
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
