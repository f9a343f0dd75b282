// Painting calls: density while there are too many to tell apart, single dots when there are
// few. Cells are 2 x 2 pixels; a cell's colour is the logarithm of its count, with one maximum
// for all panels, so that one slow call among a million is still seen and panels compare.

import { h as element } from '../dom.js';
import { count } from '../format.js';
import { colour, ramp, rampGradient } from '../theme.js';
import { CODE, FLAGS, lower, upper } from './points.js';

export const CELL_PX = 2;
/** Calls of one panel drawn as dots; more would cover each other. */
export const DOTS_MOST = 4000;
const MARK_PX = 6;
const LONE = 2; // cells around a lone one that are empty

/** Which calls lie in the box in view, and how their latencies map to rows of cells. */
export function select(calls, codes, view, step_s, offset_s) {
  const [x0, x1] = view.x.map((t) => (t - offset_s) / step_s);
  const slack = 1e-6; // of a step: edges that came through arithmetic
  return {
    from: lower(calls.step, x0 - slack), to: upper(calls.step, x1 + slack), x0, x1,
    inside: codes.position.map((p) => (p >= view.y[0] - 1e-12 && p <= view.y[1] + 1e-12 ? 1 : 0)),
  };
}

/** Exact numbers of a selection. */
export function tally(calls, codes, selection) {
  const { from, to, inside } = selection;
  const { word } = calls;
  const found = { answered: 0, unanswered: 0, again: 0, outside: 0 };
  for (let i = from; i < to; i += 1) odd(found, word[i], inside, codes);
  return finished(found, to - from);
}

// What is not a plain call in view; the rest is counted by subtraction.
function odd(found, word, inside, codes) {
  const code = word & CODE;
  const lost = code === codes.unanswered;
  if (lost) found.unanswered += 1;
  else if (!inside[code]) found.outside += 1;
  if (word & FLAGS.again && (lost || inside[code])) found.again += 1;
}

function finished(found, n) {
  found.inView = n - found.outside;
  found.answered = found.inView - found.unanswered;
  return found;
}

/** Counts of calls in cells of a panel of w x h pixels, and the exact numbers of `tally`. */
export function bin(calls, codes, selection, view, w, h) {
  const [wide, tall] = [Math.ceil(w / CELL_PX), Math.ceil(h / CELL_PX)];
  const cells = new Uint32Array(wide * tall);
  const perPosition = tall / (view.y[1] - view.y[0]);
  const rows = new Int32Array(CODE + 1).fill(-1);
  for (let code = 0; code <= CODE; code += 1) {
    if (!selection.inside[code]) continue;
    const up = Math.floor((codes.position[code] - view.y[0]) * perPosition);
    rows[code] = (tall - 1 - Math.min(tall - 1, Math.max(0, up))) * wide;
  }
  const { from, to, x0, x1, inside } = selection;
  const scale = wide / (x1 - x0 || 1);
  const { step, word } = calls;
  const last = wide - 1;
  const found = { answered: 0, unanswered: 0, again: 0, outside: 0 };
  let most = 0;
  for (let i = from; i < to; i += 1) {
    const row = rows[word[i] & CODE];
    if (row < 0 || word[i] & FLAGS.again) odd(found, word[i], inside, codes);
    if (row >= 0) {
      let column = ((step[i] - x0) * scale) | 0;
      if (column > last) column = last;
      const n = (cells[row + column] += 1);
      if (n > most) most = n;
    }
  }
  return { cells, wide, tall, most, found: finished(found, to - from) };
}

/** Counts of a grid in view, whole columns added up to at most a panel's cells. */
export function binGrid(grid, density, codes, view, w) {
  const { columns, rows, cells } = grid;
  const span = density.column_s;
  const clamp = (v) => Math.min(columns, Math.max(0, v));
  const a = clamp(Math.floor((view.x[0] - density.first_s) / span + 1e-9));
  const b = clamp(Math.ceil((view.x[1] - density.first_s) / span - 1e-9));
  const each = Math.max(1, Math.ceil((b - a) / Math.ceil(w / CELL_PX)));
  const wide = Math.max(1, Math.ceil((b - a) / each));
  const perRow = density.codes_per_row;
  const latencyRows = rows - 2;
  const out = new Float64Array(wide * latencyRows);
  const found = { inView: 0, answered: 0, unanswered: 0, again: 0, most: 0 };
  for (let c = a; c < b; c += 1) {
    const base = c * rows;
    const to = Math.floor((c - a) / each);
    found.unanswered += cells[base + latencyRows];
    found.again += cells[base + latencyRows + 1];
    for (let r = 0; r < latencyRows; r += 1) {
      const n = cells[base + r];
      if (!n) continue;
      const centre = codes.edge((r + 0.5) * perRow);
      const place = (latencyRows - 1 - r) * wide + to;
      out[place] += n;
      if (centre >= view.y[0] && centre <= view.y[1]) {
        found.answered += n;
        if (out[place] > found.most) found.most = out[place];
      }
    }
  }
  found.inView = found.answered + found.unanswered;
  const x = (c) => density.first_s + c * span;
  return {
    ...found, cells: out, wide, tall: latencyRows, each,
    box: [x(a), x(a + wide * each), codes.edge(0), codes.edge(rows * perRow - 2 * perRow)],
  };
}

/** Calls in the cells of `bin` around a place in the view: 6 x 6 pixels. */
export function cellsNear({ cells, wide, tall }, view, x, y) {
  const column = Math.floor(((x - view.x[0]) / (view.x[1] - view.x[0])) * wide);
  const row = tall - 1 - Math.floor(((y - view.y[0]) / (view.y[1] - view.y[0])) * tall);
  let n = 0;
  for (let dy = -1; dy <= 1; dy += 1) {
    for (let dx = -1; dx <= 1; dx += 1) {
      const [cx, cy] = [column + dx, row + dy];
      if (cx >= 0 && cx < wide && cy >= 0 && cy < tall) n += cells[cy * wide + cx];
    }
  }
  return n;
}

/** Calls in the cell of `binGrid` at a place. */
export function cellCount({ box, cells, wide, tall }, x, y) {
  const [a, b, low, high] = box;
  const column = Math.floor(((x - a) / (b - a)) * wide);
  const row = tall - 1 - Math.floor(((y - low) / (high - low)) * tall);
  return cells[row * wide + column] ?? 0;
}

/** Lines at the ticks of a panel of w x tall, `top` pixels below the canvas' edge. */
export function paintGridLines(context, [x0, x1], [y0, y1], w, tall, xs, ys, top = 0) {
  context.strokeStyle = colour('grid');
  context.lineWidth = 1;
  context.beginPath();
  for (const { at } of xs) {
    const px = ((at - x0) / (x1 - x0)) * w;
    context.moveTo(px, top);
    context.lineTo(px, top + tall);
  }
  for (const { at } of ys) {
    const py = top + tall - ((at - y0) / (y1 - y0)) * tall;
    context.moveTo(0, py);
    context.lineTo(w, py);
  }
  context.stroke();
}

/** What the colours of cells mean. */
export function rampLegend(what, most) {
  const bar = element('span', { class: 'entry ramp' }, `${what} in a cell, log colour: 1`,
    element('i', { 'aria-hidden': 'true' }), count(most));
  bar.querySelector('i').style.background = rampGradient('density');
  return bar;
}

/** A canvas of w x h page pixels, `sharp` of its own each; `used` is taken again if it fits. */
export function canvasFor(w, h, sharp, used) {
  const [wide, tall] = [Math.round(w * sharp), Math.round(h * sharp)];
  const fits = used && used.width === wide && used.height === tall;
  const canvas = fits ? used : document.createElement('canvas');
  if (!fits) {
    canvas.width = wide;
    canvas.height = tall;
  }
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, w, h);
  return { canvas, context };
}

let source = null; // painted and drawn at once: one for all panels

function pixels({ cells, wide, tall }, most, widen) {
  const { canvas, context } = canvasFor(wide, tall, 1, source);
  source = canvas;
  const image = context.createImageData(wide, tall);
  const out = new Uint32Array(image.data.buffer);
  const colours = ramp('density');
  const scale = 255 / Math.log(1 + Math.max(1, most));
  for (let k = 0; k < cells.length; k += 1) {
    if (cells[k]) out[k] = colours[Math.floor(Math.log(1 + cells[k]) * scale)];
  }
  if (widen) widenLone(cells, wide, tall, out);
  context.putImageData(image, 0, 0);
  return canvas;
}

// A cell with nothing around it gets arms, so that a single slow call is seen from afar.
function widenLone(cells, wide, tall, out) {
  for (let y = LONE; y < tall - LONE; y += 1) {
    for (let x = LONE; x < wide - LONE; x += 1) {
      const k = y * wide + x;
      if (cells[k] && lone(cells, wide, k)) {
        const tint = out[k];
        out[k - 1] = tint;
        out[k + 1] = tint;
        out[k - wide] = tint;
        out[k + wide] = tint;
      }
    }
  }
}

function lone(cells, wide, k) {
  for (let dy = -LONE; dy <= LONE; dy += 1) {
    for (let dx = -LONE; dx <= LONE; dx += 1) {
      if ((dx || dy) && cells[k + dy * wide + dx]) return false;
    }
  }
  return true;
}

/** Binned cells on a panel of w x h. Their `box` is what they cover, if not the view. */
export function paintCells({ context }, binned, most, view, w, h) {
  context.imageSmoothingEnabled = false;
  const image = pixels(binned, most, !binned.box);
  if (!binned.box) {
    context.drawImage(image, 0, 0, binned.wide * CELL_PX, binned.tall * CELL_PX);
    return;
  }
  const [a, b, c, d] = binned.box;
  const kx = w / (view.x[1] - view.x[0]);
  const ky = h / (view.y[1] - view.y[0]);
  context.drawImage(image, (a - view.x[0]) * kx, (view.y[1] - d) * ky, (b - a) * kx, (d - c) * ky);
}

/** Single calls as dots. */
export function paintDots(target, place, calls, codes, selection, look = {}) {
  const { context } = target;
  const { from, to, inside } = selection;
  const n = to - from;
  context.fillStyle = colour(look.colour ?? 'c1');
  context.globalAlpha = look.opacity ?? (n > 1500 ? 0.55 : 0.8);
  const radius = look.radius ?? (n > 1500 ? 1.6 : n > 300 ? 2 : 2.6);
  context.beginPath();
  for (let i = from; i < to; i += 1) {
    const code = calls.word[i] & CODE;
    if (inside[code]) {
      const [x, y] = place(calls.step[i], codes.position[code]);
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    if ((i & 511) === 511) {
      context.fill();
      context.beginPath();
    }
  }
  context.fill();
  context.globalAlpha = 1;
}

/** Marks of calls sent again: open triangles, at most one in a spot of a few pixels. */
export function paintAgain(target, place, calls, codes, selection, w, h) {
  const { context } = target;
  const wide = Math.ceil(w / MARK_PX) + 1;
  const taken = new Uint8Array(wide * (Math.ceil(h / MARK_PX) + 1));
  context.strokeStyle = colour('c2');
  context.fillStyle = colour('bg');
  context.lineWidth = 1.6;
  for (let i = selection.from; i < selection.to; i += 1) {
    const code = calls.word[i] & CODE;
    if (!(calls.word[i] & FLAGS.again) || !selection.inside[code]) continue;
    const [x, y] = place(calls.step[i], codes.position[code]);
    const spot = Math.floor(y / MARK_PX) * wide + Math.floor(x / MARK_PX);
    if (taken[spot]) continue;
    taken[spot] = 1;
    context.beginPath();
    context.moveTo(x, y - 4.5);
    context.lineTo(x + 4.2, y + 3);
    context.lineTo(x - 4.2, y + 3);
    context.closePath();
    context.fill();
    context.stroke();
  }
}

/** Pixel columns (from the panel's left) in which a call got no reply. */
export function unansweredColumns(calls, codes, selection, w) {
  const columns = new Map();
  const scale = w / (selection.x1 - selection.x0 || 1);
  for (let i = selection.from; i < selection.to; i += 1) {
    if ((calls.word[i] & CODE) !== codes.unanswered) continue;
    const x = Math.min(w - 1, Math.floor((calls.step[i] - selection.x0) * scale));
    columns.set(x, (columns.get(x) ?? 0) + 1);
  }
  return columns;
}

/** The same out of a grid: x -> number. */
export function unansweredOfGrid(grid, density, view, w) {
  const columns = new Map();
  const scale = w / (view.x[1] - view.x[0]);
  for (let c = 0; c < grid.columns; c += 1) {
    const n = grid.cells[c * grid.rows + grid.rows - 2];
    const x = Math.floor((density.first_s + (c + 0.5) * density.column_s - view.x[0]) * scale);
    if (n && x >= 0 && x < w) columns.set(x, (columns.get(x) ?? 0) + n);
  }
  return columns;
}
