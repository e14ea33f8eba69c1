// --- What all panels share: the stretch of nodes in view, the node looked at, what is selected

// The nodes from `from` up to `to`, in fractions, that the panels show.
class Stretch {
  constructor(numNodes) {
    this.all = Math.max(1, numNodes);
    this.from = 0;
    this.to = this.all;
  }
  get width() { return this.to - this.from; }
  isWhole() { return this.width >= this.all; }

  set(from, width) {
    width = Math.max(Math.min(8, this.all), Math.min(this.all, width));
    this.from = Math.max(0, Math.min(this.all - width, from));
    this.to = this.from + width;
  }
  zoom(at, factor) { this.set(at - (at - this.from) * factor, this.width * factor); }
  pan(nodes) { this.set(this.from + nodes, this.width); }
  fit() { this.set(0, this.all); }
  // Moves as little as shows the nodes from `first` up to `last`, widened if need be.
  show(first, last) {
    if (last - first > this.width) this.set(first, last - first);
    else if (first < this.from) this.set(first - this.width / 10, this.width);
    else if (last > this.to) this.set(last - 0.9 * this.width, this.width);
  }
}

// What belongs to a block or a node, to be lit in all panels.
class Light {
  constructor(step, {block = -1, node = -1}) {
    this.block = block;
    this.node = block >= 0 ? step.blocks.maker[block] : node;
    this.value = block >= 0 ? step.blocks.value[block] - 1 : -1;
    this.readers = this.value >= 0 ? Array.from(step.readersOf(this.value)) : [];
    this.blocks = new Map(); // block -> how it is drawn: "own", "again", "read"
    if (block >= 0) this.addTensor(step);
    else if (node >= 0) this.addNode(step);
    this.readerSet = new Set(this.readers);
  }

  addTensor(step) {
    this.instances = this.value >= 0 ? step.instancesOf(this.value) : [];
    for (const v of this.instances) this.blocks.set(step.blocks.ofValue(v), "again");
    this.blocks.set(this.block, "own");
  }

  addNode(step) {
    for (const v of step.operandsOf(this.node)) {
      const b = step.blocks.ofValue(v);
      if (b >= 0) this.blocks.set(b, "read");
    }
    for (const b of step.blocks.ofNode(this.node)) this.blocks.set(b, "own");
    for (const v of step.resultsOf(this.node)) this.readers.push(...step.readersOf(v));
  }
}

class Shared {
  constructor(step) {
    this.step = step;
    this.stretch = new Stretch(step.numNodes);
    this.cursor = step.peakNode; // the node that the list of live tensors is for
    this.light = null;           // what is selected
    this.hovered = null;         // what is under the pointer
    this.matches = null;         // nodes found by a search, in order; or null
    this.listeners = [];
  }

  // `listener(what)` is called after a change of "view", "light", "hover" or "cursor".
  listen(listener) { this.listeners.push(listener); }
  tell(what) {
    for (const listener of this.listeners) listener(what);
  }

  move(change) {
    change(this.stretch);
    this.tell("view");
  }
  hover(target) {
    const same = target?.block === this.hovered?.block && target?.node === this.hovered?.node;
    if (same) return;
    this.hovered = target;
    this.tell("hover");
  }
  select(target) {
    this.light = target ? new Light(this.step, target) : null;
    if (this.light && this.light.node >= 0) this.cursor = this.light.node;
    this.tell("light");
  }
  moveCursor(node) {
    this.cursor = Math.max(0, Math.min(this.step.numNodes - 1, node));
    this.stretch.show(this.cursor, this.cursor + 1);
    this.tell("cursor");
  }
}
