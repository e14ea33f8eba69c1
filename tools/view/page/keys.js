// --- Keys

const KEYS = [
  ["← →", "the node before, the next node; with Shift ten at once"], ["+ −", "zoom at the cursor"],
  ["a d", "move the step to the left, to the right"], ["0", "the whole step"], ["p", "the peak"],
  ["Enter", "select the node at the cursor, or the largest tensor made there"],
  ["/", "find a name or an op; Enter goes to the next match"],
  ["↑ ↓ → ←", "in the graph: move over the rows, open, close; in the schedule: move over devices and bars"], ["[ ]", "in the arena: zoom the offsets"],
  ["t", "light or dark"], ["Esc", "clear the search, then the selection"], ["?", "this list"]
];

class Keys {
  constructor(view) {
    this.view = view;
    byId("keys").append(
      ...KEYS.map(([keys, what]) => element("tr", {}, element("th", {}, keys), element("td", {}, what))));
    document.addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select") || byId("help").open) return;
      if (this.ofPanel(e.key) || this.act(e)) e.preventDefault();
    });
  }

  // Keys of the panel that has the focus.
  ofPanel(key) {
    const {graph, places} = this.view;
    return [graph, places?.schedule].some(panel => panel && document.activeElement === panel.canvas && panel.key(key));
  }

  // Returns whether the key meant something.
  act(e) {
    const {shared, theme, search, arena} = this.view;
    const at = shared.step.axis.placeOf(shared.cursor + 0.5);
    const zoom = factor => shared.move(s => s.zoom(at >= s.from && at < s.to ? at : (s.from + s.to) / 2, factor));
    const actions = {
      ArrowLeft: () => shared.moveCursor(shared.cursor - (e.shiftKey ? 10 : 1)),
      ArrowRight: () => shared.moveCursor(shared.cursor + (e.shiftKey ? 10 : 1)),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1 / 0.7),
      a: () => shared.move(s => s.pan(-s.width / 5)),
      d: () => shared.move(s => s.pan(s.width / 5)),
      0: () => this.view.fit(),
      p: () => this.view.toPeak(),
      Enter: () => e.target.matches("button") ? false : this.selectAtCursor(),
      "/": () => search.input.focus(),
      "[": () => arena.zoomOffsets((arena.low + arena.high) / 2, 1 / 0.7),
      "]": () => arena.zoomOffsets((arena.low + arena.high) / 2, 0.7),
      t: () => theme.toggle(),
      Escape: () => this.escape(),
      "?": () => byId("help").showModal()
    };
    return e.key in actions && actions[e.key]() !== false;
  }

  selectAtCursor() {
    const {shared} = this.view, b = shared.step.blocks;
    const made = Array.from(b.ofNode(shared.cursor)).filter(i => b.value[i]).sort((i, j) => b.bytes[j] - b.bytes[i]);
    shared.select(shared.light?.node === shared.cursor && shared.light.block < 0 && made.length
        ? {block: made[0]}
        : {node: shared.cursor});
  }

  escape() {
    if (this.view.search.input.value) this.view.search.clear();
    else this.view.shared.select(null);
  }
}
