// Figure: single reads, writes and ranges made durable: time against the place in the file, one
// panel a class of files (or a file), on one axis of time. Density while there are too many to
// tell apart, dots when there are few: the larger, the more bytes.
//
// Panels differ by orders in what they span, so the view's y is a share of each panel's own span.
// Accesses are coded for the view as calls of captures are (capture/points.js), and painted by the
// same code. Counts are exact: they compare offsets and times, not codes.

import { select as choice } from '../dom.js';
import { column } from '../data.js';
import { CODE, lower } from '../capture/points.js';
import {
  DOTS_MOST, bin, binGrid, canvasFor, cellCount, cellsNear, paintCells, paintDots, paintGridLines,
  rampLegend, select,
} from '../capture/paint.js';
import { count, quantity } from '../format.js';
import { LEFT, RIGHT, stacked } from '../layout.js';
import { linear, ticks } from '../scales.js';
import { colour } from '../theme.js';

const PANEL_PX = 190;
const PAPER_PX = 140;
const GAP_PX = 78;
const TOP_PX = 54;
const STEP_S = 1e-6;
const STEPS = CODE - 1; // codes of places in the view, from its lower edge
const OUTSIDE = CODE; // not in view, or hidden
const REACH_PX = 9;
const LARGE_CELL_PX = 6;
const KIND_BITS = 2;
const KIND = (1 << KIND_BITS) - 1;
const WORDS = 32;
const UNIT = [0, 1];
const RADII = [[8192, 1.7], [65536, 2.6], [1 << 20, 3.8], [Infinity, 5.2]];
const COLOURS = { kind: ['c1', 'c2', 'c3', 'c4'], place: ['c8', 'c1', 'c2', 'c3', 'c4', 'c7'] };
const CODES = {
  position: Float64Array.from({ length: CODE + 1 }, (_, code) => (
    code < STEPS ? (code + 0.5) / STEPS : NaN)),
  unanswered: -1,
};

/** Columns of a list: {n, step (µs), offset, size, word, file}. */
function decodeList(chunk, list) {
  const step = column(chunk, list.steps);
  for (let i = 1; i < step.length; i += 1) step[i] += step[i - 1];
  return {
    n: list.n, step, offset: column(chunk, list.offset), size: column(chunk, list.size),
    word: Uint8Array.from(column(chunk, list.word)), file: column(chunk, list.file),
    coded: new Uint16Array(list.n),
  };
}

function decodePanel(chunk) {
  const { header } = chunk;
  const panel = { paths: header.paths, list: decodeList(chunk, header.list) };
  if (header.cells) {
    panel.cells = { ...header.cells };
    for (const name of ['place', 'word', 'n']) {
      panel.cells[name] = column(chunk, header.cells[name]);
    }
  }
  return panel;
}

export function accessesFigure(model, id = 'accesses') {
  const { accesses } = model;
  const state = { by: 'kind' };
  let panels = [];

  async function prepare() {
    panels = await Promise.all(accesses.panels.map(async (info) => ({
      info, ...decodePanel(await model.chunks.load(info.chunk)),
    })));
  }

  const meaning = (word) => (state.by === 'kind' ? word & KIND : word >> KIND_BITS);

  /** Which words are shown. */
  const shownWords = (hidden) => Uint8Array.from({ length: WORDS },
    (_, word) => (hidden.has(`${state.by}-${meaning(word)}`) ? 0 : 1));

  /** The list's accesses in view, coded for it: {n, selection}. */
  function inView(list, top, viewport, shown) {
    const view = { x: viewport.x, y: UNIT };
    const selection = select({ step: list.step }, CODES, view, STEP_S, 0);
    const [low, high] = viewport.y;
    const scale = STEPS / (high - low);
    const { offset, word, coded } = list;
    let n = 0;
    for (let i = selection.from; i < selection.to; i += 1) {
      const at = offset[i] / top;
      if (!shown[word[i]] || at < low || at > high) {
        coded[i] = OUTSIDE;
      } else {
        coded[i] = Math.min(STEPS - 1, (at - low) * scale);
        n += 1;
      }
    }
    return { n, selection, view };
  }

  /** Exact counts of the cells whose words are shown. */
  function gridOf({ columns, rows, place, word, n }, shown) {
    const cells = new Float64Array(columns * (rows + 2)); // two rows that only captures have
    for (let i = 0; i < n.length; i += 1) {
      if (shown[word[i]]) cells[Math.floor(place[i] / rows) * (rows + 2) + place[i] % rows] += n[i];
    }
    return { columns, rows: rows + 2, cells };
  }

  function look(panel, rect, viewport, shown) {
    const { list, cells: grid, info } = panel;
    const seen = inView(list, info.top, viewport, shown);
    if (grid) {
      const density = {
        column_s: grid.column_s, first_s: 0, codes_per_row: 1,
      };
      const cells = binGrid(gridOf(grid, shown), density, { edge: (r) => r / grid.rows },
        { x: viewport.x, y: viewport.y }, rect.w);
      return { ...seen, n: cells.inView, single: seen.n, cells, grid: true };
    }
    if (seen.n <= DOTS_MOST) return { ...seen, single: seen.n };
    const coded = { step: list.step, word: list.coded };
    return { ...seen, single: 0, cells: bin(coded, CODES, seen.selection, seen.view, rect.w,
      rect.h) };
  }

  function scene(width, viewport, hidden, paper = false) {
    const shown = shownWords(hidden);
    const w = width - LEFT - RIGHT;
    const { places, height } = stacked(panels.map(() => (paper ? PAPER_PX : PANEL_PX)), LEFT, w,
      { gap: GAP_PX, top: TOP_PX });
    const counts = { total: accesses.calls, inView: 0, what: 'accesses' };
    const made = panels.map((panel, k) => {
      const seen = look(panel, places[k].rect, viewport, shown);
      counts.inView += seen.n;
      return { panel, seen, ...places[k] };
    });
    const most = Math.max(1, ...made.map(({ seen }) => seen.cells?.most ?? 0));
    const density = made.some(({ seen }) => seen.cells);
    return {
      width, height, counts, density, legend: legend(),
      legendExtra: density ? [rampLegend('accesses', most)] : [],
      panels: made.map((one) => scenePanel(one, viewport, most)),
    };
  }

  function scenePanel(one, viewport, most) {
    const { panel, seen, rect, last } = one;
    const { info } = panel;
    const bytes = viewport.y.map((share) => share * info.top);
    const x = ticks(linear, viewport.x, Math.max(3, Math.floor(rect.w / 85)), 's');
    const y = ticks(linear, bytes, 4, 'B').filter((tick) => tick.value >= 0);
    const note = [
      `${seen.grid ? '≈ ' : ''}${count(seen.n)} of ${count(info.calls)} in view`,
      ...(seen.cells ? ['density'] : []),
      ...(info.files > 1 ? [`${count(info.files)} files, each from its own beginning`] : []),
    ];
    return {
      rect, title: info.label, titleRise: 48, note: note.join(' · '), marks: [], layers: [],
      image: (sharp, used) => paint(one, viewport, bytes, most, x, y,
        canvasFor(rect.w, rect.h, sharp, used)),
      x: {
        domain: viewport.x, grid: false, ticks: x, name: last ? accesses.time_name : '',
      },
      y: { domain: bytes, grid: false, ticks: y, name: 'offset', nameGap: 72 },
      hover: { at: (at, offset) => hoverLines(one, viewport, at, offset) },
    };
  }

  function paint({ panel, seen, rect }, viewport, bytes, most, xs, ys, target) {
    const { w, h } = rect;
    paintGridLines(target.context, viewport.x, bytes, w, h, xs, ys);
    target.context.save();
    target.context.beginPath();
    target.context.rect(0, 0, w, h);
    target.context.clip();
    if (seen.cells) paintCells(target, seen.cells, most, viewport, w, h);
    const large = seen.grid && w / Math.max(1, seen.cells.wide) > LARGE_CELL_PX;
    if (!seen.cells || (large && seen.single <= DOTS_MOST)) dots(panel.list, seen, w, h, target);
    target.context.restore();
    return target.canvas;
  }

  /** Single accesses: one pass for each colour and size. */
  function dots(list, { selection, view, grid: over }, w, h, target) {
    const groups = new Map();
    for (let i = selection.from; i < selection.to; i += 1) {
      if (list.coded[i] === OUTSIDE) continue;
      const size = RADII.findIndex(([largest]) => list.size[i] <= largest);
      const key = meaning(list.word[i]) * RADII.length + size;
      if (!groups.has(key)) groups.set(key, { step: [], word: [] });
      groups.get(key).step.push(list.step[i]);
      groups.get(key).word.push(list.coded[i]);
    }
    const kx = w / (view.x[1] - view.x[0]);
    const place = (step, position) => [(step * STEP_S - view.x[0]) * kx, h * (1 - position)];
    for (const key of [...groups.keys()].sort((a, b) => a - b)) {
      const group = groups.get(key);
      const all = { from: 0, to: group.step.length, inside: selection.inside };
      const radius = RADII[key % RADII.length][1];
      // Over cells a rim in the page's colour, so that it is seen.
      if (over) paintDots(target, place, group, CODES, all, { colour: 'bg', radius: radius + 1 });
      paintDots(target, place, group, CODES, all, {
        colour: COLOURS[state.by][Math.floor(key / RADII.length)], radius, opacity: 0.75,
      });
    }
  }

  function hoverLines(one, viewport, at, offset) {
    const { panel, seen } = one;
    const near = nearest(one, viewport, at, offset);
    if (near) return near;
    if (!seen.cells) return null;
    const share = offset / panel.info.top;
    const n = seen.grid ? cellCount(seen.cells, at, share)
      : cellsNear(seen.cells, viewport, at, share);
    return [[count(n), seen.grid ? 'accesses in this cell' : 'accesses here (6 × 6 pixels)'],
      ['', `around ${quantity(at, 's', 5)}, offset ${quantity(offset, 'B')}`]];
  }

  /** What is said of the access under the pointer; null when none is near, or drawn by itself. */
  function nearest({ panel, seen, rect }, viewport, at, offset) {
    const { list, info } = panel;
    if (seen.single > DOTS_MOST) return null;
    const kx = rect.w / (viewport.x[1] - viewport.x[0]);
    const ky = rect.h / (viewport.y[1] - viewport.y[0]) / info.top;
    let best = REACH_PX ** 2;
    let found = -1;
    const from = lower(list.step, (at - REACH_PX / kx) / STEP_S);
    for (let i = from; i < list.n; i += 1) {
      const dx = (list.step[i] * STEP_S - at) * kx;
      if (dx > REACH_PX) break;
      const distance = dx ** 2 + ((list.offset[i] - offset) * ky) ** 2;
      if (list.coded[i] !== OUTSIDE && distance < best) { best = distance; found = i; }
    }
    if (found < 0) return null;
    const word = list.word[found];
    const [kind, place] = [accesses.kinds[word & KIND], accesses.places[word >> KIND_BITS]];
    const time = list.step[found] * STEP_S;
    const begin = list.offset[found];
    const lines = [
      [quantity(list.size[found], 'B'), place === 'none' ? kind : `${kind}, ${place}`],
      ['', `at ${time.toFixed(6)} s, offset ${count(begin)} (${quantity(begin, 'B')})`],
      ['', panel.paths[list.file[found]] ?? info.label],
    ];
    lines.ring = [rect.x + (time - viewport.x[0]) * kx,
      rect.y + rect.h - (begin - viewport.y[0] * info.top) * ky];
    return lines;
  }

  const sum = (of) => panels.reduce((all, { info }) => all.map((n, i) => n + info[of][i]),
    accesses[of].map(() => 0));

  function legend() {
    const [names, totals] = [accesses[`${state.by}s`], sum(`${state.by}s`)];
    return names.flatMap((label, k) => (totals[k] ? [{
      key: `${state.by}-${k}`,
      label: `${label === 'none' ? 'none: sync_file_range' : label} `
        + `(${count(totals[k])})`,
      look: { shape: 'circle', line: false, colour: colour(COLOURS[state.by][k]) },
    }] : []));
  }

  const controls = (fig) => [choice('Colour', [['kind', 'by call'],
    ['place', 'by place: sequential, rewrite, …']], state.by, (value) => {
    state.by = value;
    fig.hidden.clear();
    fig.later(); // what is in view stays
  })];

  function caption(drawn) {
    const sampled = panels.filter(({ cells }) => cells).map(({ info, cells }) => `${info.label}: `
      + `${count(info.calls)} are too many to hold each; counts are exact in cells of `
      + `${quantity(cells.column_s, 's')} × ${quantity(info.top / cells.rows, 'B')}, and `
      + `zoomed in, dots show 1 in ${count(info.one_in)}.`);
    return ['Each dot is one call: when it began, and where in its file; larger dots are more than '
      + '8 KiB, 64 KiB and 1 MiB. Each panel has its own scale of offsets; time is one for all.',
    ...(drawn.density ? ['Far out, colour shows how many lie in a cell; zoom in for single calls.']
      : []), ...sampled, ...accesses.notes].join(' ');
  }

  const number = (label) => ({ label, numeric: true, show: count });

  return {
    id, title: 'Sizes and offsets over time', renderer: 'svg', axes: 'xy', prepare, scene, controls,
    caption, least: 1e-9,
    /** What was decoded, for tests and curious people. */
    decoded: () => panels,
    domain: () => ({ x: accesses.time_domain, y: accesses.domain }),
    table: () => ({
      columns: [{ label: 'files' }, number('accesses'), ...accesses.kinds.map(number),
        ...accesses.places.slice(0, -1).map(number), { label: 'bytes', numeric: true,
          show: (v) => quantity(v, 'B') }],
      rows: panels.map(({ info }) => [info.label, info.calls, ...info.kinds,
        ...info.places.slice(0, -1), info.bytes]),
    }),
  };
}
