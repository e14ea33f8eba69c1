// --- The data of the page: tables of numbers, compressed

// The columns that the program packed: see tools/view/columns.h for the form.
class Columns {
  constructor(buffer) {
    this.data = new Uint8Array(buffer);
    const length = new DataView(buffer).getUint32(0, true);
    this.head = JSON.parse(new TextDecoder().decode(this.data.subarray(4, 4 + length)));
    this.places = new Map();
    let at = 4 + length;
    for (const [name, form, count, bytes] of this.head.columns) {
      this.places.set(name, {form, count, at, bytes});
      at += bytes;
    }
  }

  has(name) { return this.places.has(name); }

  get(name) {
    const place = this.places.get(name);
    const bytes = this.data.subarray(place.at, place.at + place.bytes);
    if (place.form === "u8") return bytes.slice();
    if (place.form === "f32") {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return Float32Array.from({length: place.count}, (_, i) => view.getFloat32(4 * i, true));
    }
    return numbers(bytes, place.count, place.form === "delta");
  }
}

// Decodes numbers in groups of 7 bits; `areDifferences`: of a number to the one before.
function numbers(bytes, count, areDifferences) {
  const out = new Float64Array(count);
  let at = 0, last = 0, most = 0;
  for (let i = 0; i < count; ++i) {
    let value = bytes[at++];
    if (value >= 128) {
      value -= 128;
      for (let scale = 128, byte = 128; byte >= 128; scale *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * scale;
      }
    }
    if (areDifferences) value = last += value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    out[i] = value;
    if (value > most) most = value;
  }
  return most < 2 ** 32 ? Uint32Array.from(out) : out;
}

async function unpacked(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Columns(await new Response(stream).arrayBuffer());
}

// Where the entries of each list begin, from the lengths of the lists.
function startsOf(lengths) {
  const starts = new Uint32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; ++i) starts[i + 1] = starts[i] + lengths[i];
  return starts;
}

// The first index from `low` to `high` for which `isAt(index)`, which holds for all from one on.
function firstAt(low, high, isAt) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAt(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
