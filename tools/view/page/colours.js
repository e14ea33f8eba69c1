// --- Colours, for a light and a dark page

// By kind of live bytes, as the program numbers them.
const KIND_COLOURS = {
  light: [
    "#3f74ae", "#e0a526", "#1f9488", "#8a4fae", "#8a8a3a", "#579a41", "#a9c8ea", "#d9776a", "#8e3a33", "#6f5fa8",
    "#8b95a0", "#c3c9cf", "#4aa3a8",
    "#3f74ae", "#e0a526", "#e6b3a6"
  ],
  dark: [
    "#5b95d4", "#e9b949", "#35b3a5", "#b27fd4", "#b0b05a", "#78bd60", "#35587d", "#d77a6d", "#a8544b", "#9587cf",
    "#77818c", "#505860", "#4fb9bf",
    "#5b95d4", "#e9b949", "#7a4a41"
  ]
};
// From the bottom of the stack to its top.
const STACK_ORDER = [8, 9, 11, 0, 12, 4, 2, 3, 1, 5, 6, 7, 10, 13, 14, 15];
const UNUSED = 15; // bytes of a segment that hold nothing

// Ways of nodes: 1 to 7 are stand-ins, as the program numbers them; then come the phases.
const PHASE_WAY = [8, 9, 10];
const WAY_TEXTS = [
  "", "recomputed", "boundary", "inverse", "helper of an inverse", "encoding", "transfer", "chunk", "forward",
  "backward", "update"
];
// Events of an allocator take the places of the phases.
const EVENT_TEXTS = ["allocation", "free", "other event"];
const WAY_COLOURS = {
  light:
    ["", "#e0a526", "#c9b88a", "#8a4fae", "#b596c9", "#8a8a3a", "#1f9488", "#579a41", "#3f74ae", "#d9776a", "#6f5fa8"],
  dark:
    ["", "#e9b949", "#8d8157", "#b27fd4", "#8b6ea3", "#b0b05a", "#35b3a5", "#78bd60", "#5b95d4", "#d77a6d", "#9587cf"]
};

const INKS = {
  light: {
    ink: "#1d2329",
    faint: "#68737d",
    grid: "#e4e8ec",
    page: "#ffffff",
    budget: "#c2261d",
    other: "#1d2329",
    lit: "#111111",
    shade: "rgba(30,60,90,0.10)",
    ramp: [[233, 240, 248], [20, 72, 132]]
  },
  dark: {
    ink: "#e4e8ec",
    faint: "#97a2ad",
    grid: "#2a323a",
    page: "#14181c",
    budget: "#ff7b70",
    other: "#e8edf2",
    lit: "#ffffff",
    shade: "rgba(170,200,230,0.14)",
    ramp: [[38, 48, 60], [120, 184, 250]]
  }
};

class Theme {
  constructor() {
    // The query is asked once, since Chromium sends no event about a change that was seen before.
    const query = window.matchMedia("(prefers-color-scheme: dark)");
    this.systemIsDark = query.matches;
    this.chosen = null; // by the person: "light", "dark", or null
    query.addEventListener("change", e => {
      this.systemIsDark = e.matches;
      this.changed();
    });
    this.listener = () => {};
  }
  get name() { return this.chosen || (this.systemIsDark ? "dark" : "light"); }
  get inks() { return INKS[this.name]; }
  kind(k) { return KIND_COLOURS[this.name][k]; }
  way(w) { return WAY_COLOURS[this.name][w]; }
  // From pale to strong, for a share from 0 to 1.
  ramp(share) {
    const [low, high] = this.inks.ramp, s = Math.sqrt(Math.max(0, Math.min(1, share)));
    return "#" + low.map((l, i) => Math.round(l + (high[i] - l) * s).toString(16).padStart(2, "0")).join("");
  }
  toggle() {
    this.chosen = this.name === "dark" ? "light" : "dark";
    this.changed();
  }
  changed() {
    document.documentElement.dataset.theme = this.name;
    byId("theme").textContent = this.name === "dark" ? "Light" : "Dark";
    this.listener();
  }
}
