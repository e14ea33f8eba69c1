// --- Texts for people, and elements of the page that hold them

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  return (unit === 0 ? String(bytes) : bytes.toFixed(bytes < 100 ? 1 : 0)) + " " + units[unit];
}

function timeText(us) {
  if (us === 0) return "0";
  if (us < 1000) return us.toFixed(us < 10 ? 2 : 1) + " us";
  if (us < 1e6) return (us / 1000).toFixed(us < 1e5 ? 2 : 1) + " ms";
  return (us / 1e6).toFixed(2) + " s";
}

function numberText(n) { return n.toLocaleString("en"); }

function countText(n, what) { return numberText(n) + " " + what + (n === 1 ? "" : "s"); }

// A name of the model as it may be shown. Characters that nobody sees or that change the direction
// of the text around them are spelt out, so that two names that look alike are alike.
function shownName(name) {
  return name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    c => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// Cuts a text in the middle, so that it is at most `width` wide in the context's font.
function fittingText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0, high = text.length; // so many characters fit
  while (low < high) {
    const most = (low + high + 1) >> 1;
    if (context.measureText(shortened(text, most)).width <= width) low = most;
    else high = most - 1;
  }
  return low < 3 ? "" : shortened(text, low);
}

function shortened(text, length) {
  const head = Math.floor((length - 1) / 3);
  return text.slice(0, head) + "…" + text.slice(text.length - (length - 1 - head));
}

// An element with children; texts become text nodes, never markup.
function element(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {}))
    if (key === "onclick") e.addEventListener("click", value);
    else if (value !== undefined) e.setAttribute(key, value);
  e.append(...children.filter(c => c !== undefined && c !== null));
  return e;
}

function swatchElement(colour) {
  const s = element("span", {class: "swatch"});
  s.style.background = colour;
  return s;
}

// A name in an element of its own, so that its direction does not spread.
function nameElement(name) { return element("bdi", {class: "name", title: shownName(name)}, shownName(name)); }

function byId(id) { return document.getElementById(id); }
