// Calls of one panel out of its chunk: times, latencies, marks, frames, operations. The chunk
// holds the lens's byte columns as they are (crates/trace, lens `points`): LEB128 differences
// of times in steps, 16-bit words (12 bits of latency code, 4 flags), zigzag LEB128 differences
// of frame numbers, and an operation's index.

export const CODE = 0x0fff;
export const FLAGS = { again: 1 << 12, error: 1 << 13, duplicate: 1 << 14, negative: 1 << 15 };

/** LEB128 numbers one by one; exact to 2^53. */
function reader(bytes) {
  let at = 0;
  return () => {
    let byte = bytes[at];
    at += 1;
    if (byte < 128) return byte;
    let value = byte & 127;
    let unit = 128;
    do {
      byte = bytes[at];
      at += 1;
      value += (byte & 127) * unit;
      unit *= 128;
    } while (byte >= 128 && at < bytes.length);
    return value;
  };
}

function times(bytes, n) {
  const next = reader(bytes);
  const whole = new Float64Array(n);
  let step = 0;
  for (let i = 0; i < n; i += 1) {
    step += next();
    whole[i] = step;
  }
  return step < 2 ** 32 ? Uint32Array.from(whole) : whole;
}

function frameNumbers(bytes, n) {
  const next = reader(bytes);
  const out = new Uint32Array(n);
  let frame = 0;
  for (let i = 0; i < n; i += 1) {
    const coded = next();
    frame += coded % 2 ? -(coded + 1) / 2 : coded / 2;
    out[i] = frame;
  }
  return out;
}

// Low bytes of all words, then all high bytes.
function words(planes, n) {
  const out = new Uint16Array(n);
  for (let i = 0; i < n; i += 1) out[i] = planes[i] | (planes[n + i] << 8);
  return out;
}

/** First index whose value is at least `value` in a sorted array. */
export function lower(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** First index whose value is above `value`. */
export function upper(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A list of calls in the order of time: {n, step, word, frame?, operation?}. */
export class Calls {
  constructor(chunk, list) {
    const stream = (name) => {
      const place = list.streams[name];
      return place ? chunk.bytes.subarray(place[0], place[0] + place[1]) : null;
    };
    this.n = list.n;
    this.step = times(stream('steps'), list.n);
    this.word = words(stream('words'), list.n);
    this.frames = stream('frames');
    this.operation = stream('operations');
  }

  /** Frame of the call's first byte; decoded when the first one is asked for. */
  frame(i) {
    if (!this.frames) return null;
    this.frameOf ??= frameNumbers(this.frames, this.n);
    return this.frameOf[i];
  }
}

/** Counts over time and latency: {columns, rows, cells (column after column)}. */
export class Grid {
  constructor(chunk, spec) {
    const [from, length] = spec.cells;
    const bytes = chunk.bytes.subarray(from, from + length);
    const next = reader(bytes);
    this.columns = spec.columns;
    this.rows = spec.rows;
    this.cells = new Float64Array(spec.columns * spec.rows);
    let place = 0;
    for (let i = 0; i < spec.filled; i += 1) {
      place += next();
      this.cells[place] = next();
      place += 1;
    }
  }
}

/** A panel's data: {info, calls} or {info, grid, slowest, marked, sample}. */
export function decodePanel(chunk) {
  const { header } = chunk;
  const panel = { info: header.panel };
  for (const [name, list] of Object.entries(header.lists)) panel[name] = new Calls(chunk, list);
  if (header.grid) panel.grid = new Grid(chunk, header.grid);
  return panel;
}

/** What latency codes mean; positions are log10 of seconds. */
export class Codes {
  constructor({ low_ns, high_ns, steps, below, above, unanswered }) {
    Object.assign(this, { steps, below, above, unanswered });
    this.low = Math.log10(low_ns) - 9;
    this.high = Math.log10(high_ns) - 9;
    this.unit = (this.high - this.low) / steps;
    this.position = Float64Array.from({ length: CODE + 1 }, (_, code) => {
      if (code === below) return this.low;
      if (code === above) return this.high;
      return code === unanswered ? NaN : this.low + (code - 0.5) * this.unit;
    });
  }

  /** Lower edge of a code, as a position. */
  edge(code) { return this.low + (code - 1) * this.unit; }
}
