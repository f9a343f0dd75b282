// Figure: every call as a point, time against latency to the first reply, one panel an
// operation (rows) and capture (columns); one scale of time, latency and colour for all of
// them. Density while there are too many calls to tell apart, dots when there are few.
//
// Counts are exact. A call without a reply has no latency: it is a cross in the strip above
// its panel. A call that was sent again is a triangle around its point.

import { Codes, decodePanel, lower, FLAGS, CODE } from '../capture/points.js';
import {
  DOTS_MOST, bin, binGrid, canvasFor, cellCount, cellsNear, paintAgain, paintCells, paintDots,
  paintGridLines, rampLegend, select, tally, unansweredColumns, unansweredOfGrid,
} from '../capture/paint.js';
import { bands, clock, TIME_NAME } from '../capture/time.js';
import { count, quantity } from '../format.js';
import { LEFT, RIGHT } from '../layout.js';
import { linear, log, ticks } from '../scales.js';
import { colour } from '../theme.js';

const PANEL_PX = 200;
const PAPER_PX = 150;
const STRIP_PX = 13;
const GAP_X = 44;
const GAP_Y = 74;
const TOP = 54;
const LEAST_PANEL_PX = 240;
const REACH_PX = 9;
const SLOWEST_MOST = 400; // dots over cells, a panel
const LARGE_CELL_PX = 6;
const SEARCH_MOST = 50_000; // calls looked at for the one under the pointer
const CROSS = 'path://M0 2L2 0L5 3L8 0L10 2L7 5L10 8L8 10L5 7L2 10L0 8L3 5Z';

/** Places of the panels: operations in rows, captures in columns; one capture flows in two. */
function layout(rows, columns, width, height) {
  const room = Math.max(1, Math.floor((width - LEFT) / LEAST_PANEL_PX));
  const across = Math.min(columns === 1 ? 2 : columns, room, rows * columns);
  const w = (width - LEFT - RIGHT - GAP_X * (across - 1)) / across;
  const perRow = columns === 1 ? rows : columns;
  const places = [];
  let line = 0;
  for (let group = 0; group < (columns === 1 ? 1 : rows); group += 1) {
    for (let k = 0; k < perRow; k += 1) {
      const [x, y] = [k % across, line + Math.floor(k / across)];
      places.push({
        rect: { x: LEFT + x * (w + GAP_X), y: TOP + y * (height + GAP_Y), w, h: height },
        first: x === 0,
      });
    }
    line += Math.ceil(perRow / across);
  }
  return { places, height: TOP + line * (height + GAP_Y) - GAP_Y + 46 };
}

export function callsFigure(model, id = 'calls') {
  let panels = []; // [operation][capture]: {info, calls | grid, ...} or null
  const { captures } = model;

  async function prepare() {
    panels = await Promise.all(model.points.panels.map((name) => Promise.all(
      captures.map(async (capture) => {
        const chunk = capture.points.chunks[name];
        return chunk ? decodePanel(await model.chunks.load(chunk)) : null;
      }))));
  }

  const codesOf = captures.map((capture) => new Codes(capture.points.codes));

  /** What of a panel is in view: exact counts, and cells where they are needed. */
  function look(panel, c, rect, view) {
    const capture = captures[c];
    const codes = codesOf[c];
    if (!panel) return { n: 0, dots: true, found: null };
    if (panel.grid) {
      const cells = binGrid(panel.grid, capture.points.density, codes, view, rect.w);
      return { n: cells.inView, found: cells, cells, grid: true };
    }
    const { step_s, offset_s } = capture.points;
    const selection = select(panel.calls, codes, view, step_s, offset_s);
    if (selection.to - selection.from <= DOTS_MOST) {
      const found = tally(panel.calls, codes, selection);
      return { n: found.inView, found, selection };
    }
    const cells = bin(panel.calls, codes, selection, view, rect.w, rect.h);
    return { n: cells.found.inView, found: cells.found, selection, cells };
  }

  const title = (name, capture, panel, seen) => {
    const head = captures.length > 1 ? `${name} · ${capture.label}` : name;
    if (!panel) return `${head}: no call`;
    const parts = [`${seen.grid ? '≈ ' : ''}${count(seen.found.inView)} calls in view`];
    if (seen.cells) parts.push('density');
    if (seen.found.unanswered) parts.push(`${count(seen.found.unanswered)} without reply`);
    if (seen.found.again) parts.push(`${count(seen.found.again)} sent again`);
    if (seen.found.outside) parts.push(`${count(seen.found.outside)} above or below`);
    return [head, parts.join(' · ')];
  };

  function scene(width, viewport, _hidden, paper = false) {
    const names = model.points.panels;
    const { places, height } = layout(names.length, captures.length, width,
      paper ? PAPER_PX : PANEL_PX);
    const view = { x: viewport.x, y: viewport.y };
    const counts = { total: 0, inView: 0, what: 'calls' };
    const made = [];
    names.forEach((name, r) => {
      const seen = captures.map((_, c) => look(panels[r][c], c,
        places[r * captures.length + c].rect, view));
      const dots = seen.every((one) => one.n <= DOTS_MOST && !one.grid);
      seen.forEach((one, c) => {
        const panel = panels[r][c];
        const { rect } = places[r * captures.length + c];
        counts.total += panel?.info.calls ?? 0;
        counts.inView += one.n;
        if (dots) one.cells = null;
        else if (panel) {
          one.cells ??= bin(panel.calls, codesOf[c], one.selection, view, rect.w, rect.h);
        }
        made.push({ name, r, c, panel, seen: one, ...places[r * captures.length + c] });
      });
    });
    const most = Math.max(1, ...made.map(({ seen }) => seen.cells?.most ?? 0));
    const density = made.some(({ seen }) => seen.cells);
    return {
      width, height, counts, density, most,
      legend: legend(made), legendExtra: [
        ...(density ? [rampLegend('calls', most)] : []), ...model.bandLegend(),
      ],
      panels: made.map((one) => scenePanel(one, viewport, view, most)),
    };
  }

  function scenePanel(one, viewport, view, most) {
    const { name, c, panel, seen, rect, first } = one;
    const capture = captures[c];
    const [head, detail] = [title(name, capture, panel, seen)].flat();
    const x = ticks(linear, viewport.x, Math.max(3, Math.floor(rect.w / 85)), 's');
    const y = ticks(log, viewport.y, 6, 's');
    return {
      rect, title: head, titleRise: 48, marks: [], note: detail,
      layers: bands(capture, viewport.x, true),
      imageRect: { x: rect.x, y: rect.y - STRIP_PX, w: rect.w, h: rect.h + STRIP_PX },
      image: (sharp, used) => paint(one, view, most, x, y, canvasFor(
        rect.w, rect.h + STRIP_PX, sharp, used)),
      x: {
        domain: viewport.x, grid: false, ticks: x,
      },
      y: {
        domain: viewport.y, grid: false, labels: first, ticks: y,
      },
      hover: panel && { at: (x, y) => hoverLines(one, view, x, y) },
    };
  }

  function paint({ c, panel, seen, rect }, view, most, xs, ys, target) {
    const { w, h: tall } = rect;
    const { context } = target;
    paintGridLines(context, view.x, view.y, w, tall, xs, ys, STRIP_PX);
    if (!panel) return target.canvas;
    const capture = captures[c];
    const codes = codesOf[c];
    const place = placer(capture, view, w, tall);
    context.save();
    context.translate(0, STRIP_PX);
    context.beginPath();
    context.rect(0, 0, w, tall);
    context.clip();
    if (seen.cells) {
      paintCells(target, seen.cells, most, view, w, tall);
    } else {
      paintDots(target, place, panel.calls, codes, seen.selection);
    }
    for (const [list, dotLook, most] of extraLists(panel, seen, w)) {
      const selection = select(panel[list], codes, view, capture.points.step_s,
        capture.points.offset_s);
      if (selection.to - selection.from > most) continue;
      paintDots(target, place, panel[list], codes, selection, dotLook);
    }
    const marked = panel.grid ? panel.marked : panel.calls;
    const selection = panel.grid ? select(marked, codes, view, capture.points.step_s,
      capture.points.offset_s) : seen.selection;
    if (seen.found.again) paintAgain(target, place, marked, codes, selection, w, tall);
    context.restore();
    const lost = panel.grid ? unansweredOfGrid(panel.grid, capture.points.density, view, w)
      : unansweredColumns(panel.calls, codes, seen.selection, w);
    crosses(context, lost);
    return target.canvas;
  }

  // Where only cells are known: the slowest calls when they are few, the sample when cells
  // have become large.
  function extraLists(panel, seen, w) {
    if (!panel.grid) return [];
    const cellPx = w / Math.max(1, seen.cells.wide);
    const dots = [['slowest', { opacity: 0.9, radius: 1.6, colour: 'c3' }, SLOWEST_MOST]];
    if (cellPx > LARGE_CELL_PX) {
      dots.push(['sample', { opacity: 0.9, radius: 1.6, colour: 'c3' }, DOTS_MOST]);
    }
    return dots;
  }

  function placer(capture, view, w, tall) {
    const { step_s, offset_s } = capture.points;
    const kx = w / (view.x[1] - view.x[0]);
    const ky = tall / (view.y[1] - view.y[0]);
    return (step, position) => [(step * step_s + offset_s - view.x[0]) * kx,
      tall - (position - view.y[0]) * ky];
  }

  function crosses(context, columns) {
    context.strokeStyle = colour('severe');
    context.lineWidth = 1.4;
    context.beginPath();
    let before = -Infinity;
    for (const x of [...columns.keys()].sort((a, b) => a - b)) {
      if (x - before < 3) continue;
      before = x;
      context.moveTo(x - 3, 3);
      context.lineTo(x + 3, 9);
      context.moveTo(x + 3, 3);
      context.lineTo(x - 3, 9);
    }
    context.stroke();
  }

  function hoverLines(one, view, x, y) {
    const { panel, c, seen } = one;
    const capture = captures[c];
    const near = nearest(one, view, x, y);
    if (near) return callLines(panel, near, capture, c);
    if (!seen.cells) return null;
    const n = seen.grid ? cellCount(seen.cells, x, y) : cellsNear(seen.cells, view, x, y);
    return [[count(n), seen.grid ? 'calls in this cell' : 'calls here (6 × 6 pixels)'],
      ['', `around ${quantity(x, 's', 5)}, ${quantity(10 ** y, 's', 2)}`]];
  }

  /** The call nearest to the pointer, where calls are few enough to be told apart. */
  function nearest(one, view, x, y) {
    const { panel, c, rect } = one;
    const capture = captures[c];
    const place = placer(capture, view, rect.w, rect.h);
    const { step_s, offset_s } = capture.points;
    const px = ((x - view.x[0]) / (view.x[1] - view.x[0])) * rect.w;
    const py = rect.h - ((y - view.y[0]) / (view.y[1] - view.y[0])) * rect.h;
    const reach = (REACH_PX / rect.w) * (view.x[1] - view.x[0]);
    let best = REACH_PX ** 2;
    let found = null;
    for (const list of panel.grid ? [panel.slowest, panel.marked, panel.sample] : [panel.calls]) {
      const from = lower(list.step, (x - reach - offset_s) / step_s);
      const to = lower(list.step, (x + reach - offset_s) / step_s);
      if (to - from > SEARCH_MOST) return null;
      for (let i = from; i < to; i += 1) {
        const position = codesOf[c].position[list.word[i] & CODE];
        const [qx, qy] = place(list.step[i], position);
        const distance = (qx - px) ** 2 + (qy - py) ** 2;
        if (distance < best) {
          best = distance;
          found = { list, i, ring: [rect.x + qx, rect.y + qy] };
        }
      }
    }
    return found;
  }

  function callLines(panel, { list, i, ring }, capture, c) {
    const code = list.word[i] & CODE;
    const flags = list.word[i];
    const codes = codesOf[c];
    const seconds = 10 ** codes.position[code];
    const latency = code === codes.below ? 'below 1 µs' : code === codes.above ? '100 s or more'
      : quantity(seconds, 's');
    const name = list.operation ? capture.points.operations[list.operation[i]] ?? 'other'
      : panel.info.name;
    const at = list.step[i] * capture.points.step_s + capture.points.offset_s;
    const odd = [
      flags & FLAGS.again && 'sent again', flags & FLAGS.error && 'answered with an error',
      flags & FLAGS.duplicate && 'answered more than once',
      flags & FLAGS.negative && 'reply captured before the call',
    ].filter(Boolean);
    const frame = list.frame(i);
    const lines = [
      [latency, name],
      ['', `at ${at.toFixed(5)} s · ${clock(capture, at)}`],
      ...(frame === null ? [] : [['', `frame ${frame}`]]),
      ...(odd.length ? [['', odd.join(', ')]] : []),
    ];
    lines.ring = ring;
    return lines;
  }

  function legend(made) {
    const any = (key) => made.some(({ panel }) => panel?.info[key]);
    return [
      ...(made.some(({ seen, panel }) => panel && !seen.cells) ? [{
        key: 'dot', fixed: true, label: 'one call',
        look: { shape: 'circle', line: false, colour: colour('c1') },
      }] : []),
      ...(any('sent_again') ? [{
        key: 'again', fixed: true, label: 'sent again',
        look: { shape: 'triangle', line: false, colour: colour('c2') },
      }] : []),
      ...(any('unanswered') ? [{
        key: 'lost', fixed: true, label: 'no reply in the capture (above the panel)',
        look: { shape: CROSS, line: false, colour: colour('severe') },
      }] : []),
    ];
  }

  function caption(drawn) {
    const kept = captures.filter((capture) => capture.points.density);
    const sampled = kept.map((capture) => `${captures.length > 1 ? `${capture.label}: ` : ''}`
      + `${count(capture.points.calls)} calls are too many to hold each; counts are exact in cells `
      + `of ${quantity(capture.points.density.column_s, 's')} × 1/16 decade. Zoomed in, dots show `
      + `all of the slowest calls and 1 in ${count(capture.points.density.sample_one_in)} of all.`);
    return [`Time of a call's first byte (${TIME_NAME}) against the time until its reply's `
      + 'first byte; both axes and the colours are the same for all panels. Latencies are '
      + `drawn in steps of 0.45 %, times in steps of 10 µs.${drawn.density
        ? ' Far out, colour shows how many calls lie in a cell; zoom in for single calls.' : ''} `,
    ...sampled].join(' ');
  }

  function table() {
    const rows = [];
    model.points.panels.forEach((name, r) => captures.forEach((capture, c) => {
      const info = panels[r][c]?.info;
      if (!info) return;
      rows.push([...(captures.length > 1 ? [capture.label] : []), name, info.calls, info.answered,
        info.unanswered, info.sent_again, info.errors, info.latency_ns?.min, info.latency_ns?.max]);
    }));
    const number = (label) => ({ label, numeric: true, show: count });
    const time = (label) => ({ label, numeric: true, show: (v) => quantity(v, 'ns') });
    return {
      columns: [...(captures.length > 1 ? [{ label: 'capture' }] : []), { label: 'operation' },
        number('calls'), number('answered'), number('without reply'), number('sent again'),
        number('errors'), time('least latency'), time('largest latency')],
      rows,
      note: 'Of the whole captures. COMPOUNDs of NFSv4 stand under the operation that names them.',
    };
  }

  return {
    id, title: 'Every call: time against latency', renderer: 'svg', axes: 'xy',
    link: model.link, least: 1e-9, prepare, scene, caption, table,
    /** What was decoded: [operation][capture], for tests and curious people. */
    decoded: () => panels,
    domain: () => ({ x: model.time.domain, y: model.points.domain }),
  };
}
