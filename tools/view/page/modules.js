// --- The modules of the network: what lies in each, and the rows that are open

// A slot collects the nodes of one way in one column of the graph's picture.
const COLUMNS = ["forward", "again", "backward", "update"];
const EVENT_COLUMNS = ["allocations", "again", "frees", "other"];
const SLOTS = [
  {column: 0, way: 8}, {column: 0, way: 5}, {column: 0, way: 6}, {column: 0, way: 7}, {column: 1, way: 1},
  {column: 1, way: 2}, {column: 1, way: 3}, {column: 1, way: 4}, {column: 1, way: 6}, {column: 1, way: 5},
  {column: 2, way: 9}, {column: 2, way: 7}, {column: 3, way: 10}
];

const BOUNDARY = 2, CHUNK = 7; // ways

class Modules {
  constructor(step) {
    this.step = step;
    this.count = step.moduleNames.length;
    this.children = Array.from({length: this.count}, () => []);
    for (let m = 1; m < this.count; ++m) this.children[step.moduleParents[m]].push(m);
    this.sortNodes();
    this.addUp();
    this.open = new Set([0]);
    this.openSome(40);
  }

  // The nodes of each module, in order.
  sortNodes() {
    const {step} = this, lengths = new Uint32Array(this.count);
    for (const m of step.moduleOf) ++lengths[m];
    this.nodeStarts = startsOf(lengths);
    const next = this.nodeStarts.slice();
    this.nodes = new Uint32Array(step.numNodes);
    for (let node = 0; node < step.numNodes; ++node) this.nodes[next[step.moduleOf[node]]++] = node;
  }
  nodesOf(m) { return this.nodes.subarray(this.nodeStarts[m], this.nodeStarts[m + 1]); }

  slotOf(node) {
    const way = this.step.way(node), phase = this.step.phase[node];
    const isEarly = phase === 0 && way >= 5; // encodings and transfers begin in the forward part
    return SLOTS.findIndex(s => s.way === way && (s.column === 0) === isEarly);
  }
  columnOf(node) { return SLOTS[this.slots[node]].column; }

  // Sums over each module and all within it, by slot.
  addUp() {
    const {step} = this, size = this.count * SLOTS.length;
    this.slots = Uint8Array.from({length: step.numNodes}, (_, node) => this.slotOf(node));
    this.sums = {nodes: new Float32Array(size), time: new Float32Array(size), bytes: new Float32Array(size)};
    for (let node = 0; node < step.numNodes; ++node) {
      const at = step.moduleOf[node] * SLOTS.length + this.slots[node];
      this.sums.nodes[at] += step.standIn[node] === BOUNDARY ? 0 : 1; // a boundary only passes a value on
      this.sums.time[at] += step.us[node];
      this.sums.bytes[at] += this.bytesOf(node);
    }
    for (let m = this.count - 1; m > 0; --m) // parents come before their children
      for (const sums of Object.values(this.sums))
        for (let s = 0; s < SLOTS.length; ++s)
          sums[step.moduleParents[m] * SLOTS.length + s] += sums[m * SLOTS.length + s];
  }
  // The bytes that the node makes, without its workspace.
  bytesOf(node) {
    const {blocks} = this.step;
    let bytes = 0;
    for (const i of blocks.ofNode(node))
      if (blocks.value[i] && blocks.begin[i] === node && blocks.kind[i] !== UNUSED) bytes += blocks.bytes[i];
    return bytes;
  }
  // The sums of a row in a column: by slot, and in all.
  cell(row, column) {
    const parts = [], all = {nodes: 0, time: 0, bytes: 0};
    SLOTS.forEach((slot, s) => {
      if (slot.column !== column) return;
      const part = row.node >= 0 ? this.nodeSums(row.node, s) : {
        nodes: this.sums.nodes[row.module * SLOTS.length + s],
        time: this.sums.time[row.module * SLOTS.length + s],
        bytes: this.sums.bytes[row.module * SLOTS.length + s]
      };
      if (!part.nodes && !part.time && !part.bytes) return;
      parts.push({way: slot.way, ...part});
      for (const key of Object.keys(all)) all[key] += part[key];
    });
    return {parts, ...all};
  }
  nodeSums(node, slot) {
    if (this.slots[node] !== slot) return {nodes: 0, time: 0, bytes: 0};
    return {nodes: 1, time: this.step.us[node], bytes: this.bytesOf(node)};
  }
  hasColumn(column) { return SLOTS.some((slot, s) => slot.column === column && this.sums.nodes[s] > 0); }

  // --- Rows
  // A module that is one node has the row of this node.
  isOneNode(m) { return this.children[m].length === 0 && this.nodeStarts[m + 1] - this.nodeStarts[m] === 1; }

  rows() {
    const rows = [];
    this.rowOfModule = new Int32Array(this.count).fill(-1);
    this.rowOfNode = new Map(); // of nodes with a row of their own
    const add = (m, depth) => {
      for (const node of m === 0 ? [] : this.nodesOf(m)) this.addNodeRow(rows, node, m, depth);
      for (const child of this.children[m]) {
        if (this.isOneNode(child)) {
          this.addNodeRow(rows, this.nodesOf(child)[0], child, depth, this.step.moduleNames[child]);
          continue;
        }
        this.rowOfModule[child] = rows.length;
        rows.push({module: child, node: -1, depth, name: this.step.moduleNames[child], isOpen: this.open.has(child)});
        if (this.open.has(child)) add(child, depth + 1);
      }
    };
    add(0, 0);
    for (const node of this.nodesOf(0)) this.addNodeRow(rows, node, 0, 0);
    for (let m = 1; m < this.count; ++m)
      if (this.rowOfModule[m] < 0) this.rowOfModule[m] = this.rowOfModule[this.step.moduleParents[m]];
    return rows;
  }
  addNodeRow(rows, node, m, depth, name) {
    if (this.isOneNode(m)) this.rowOfModule[m] = rows.length;
    this.rowOfNode.set(node, rows.length);
    rows.push({module: m, node, depth, name: name ?? this.step.nodeName(node), isOpen: false});
  }
  // The row that shows the node, or the closed module that it lies in; -1 if there is none.
  rowOf(node) { return this.rowOfNode.get(node) ?? this.rowOfModule[this.step.moduleOf[node]]; }

  // --- Opening
  toggle(m) {
    if (!this.open.delete(m)) this.open.add(m);
  }
  openTo(node) {
    for (let m = this.step.moduleOf[node]; m > 0; m = this.step.moduleParents[m]) this.open.add(m);
  }
  closeAll() { this.open = new Set([0]); }
  // Opens one more level, if the rows stay fewer than `most`.
  openLevel(most) {
    const next = this.rows().filter(r => r.node < 0 && !r.isOpen).map(r => r.module);
    const more = next.reduce((sum, m) => sum + this.children[m].length + this.nodesOf(m).length, 0);
    if (next.length === 0 || this.rows().length + more > most) return false;
    for (const m of next) this.open.add(m);
    return true;
  }
  openSome(most) {
    while (this.openLevel(most)) {
    }
  }
}
