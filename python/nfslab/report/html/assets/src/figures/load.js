// Figures: achieved against offered load, and response time against achieved load. Both draw the
// same curves in the same colours; a curve goes through its points by offered load, so that one
// that bends back under overload is seen to do so. Points that do not count are hollow and on no
// line.

import { checkbox, select } from '../dom.js';
import { interval, quantity } from '../format.js';
import { facets } from '../layout.js';
import { linear, log, ticks } from '../scales.js';
import { colour, seriesLook } from '../theme.js';

const RATE = '1/s';
const TIME = 'ms';
const RING = 15;
const DOTTED = [2, 3];
const HEIGHT = 320;
const LETTER = { w: 6.2, h: 13 }; // room of a letter in pixels
const OFF = 11; // from a mark to its label: outside the ring

// What both figures do; `axes`: how a point becomes [x, y] and the interval beside it, and
// `response`: a point's response time in words and as [value, low, high].
function draw(load, hidden, viewport, axes, rect) {
  const layers = [];
  const points = [];
  const counts = { total: 0, inView: 0, what: 'points' };
  const shown = load.curves.map((curve, k) => [curve, k]).filter(([, k]) => !hidden.has(String(k)));
  const knownOf = (curve) => curve.points.filter((p) => axes.place(p) !== null);
  const place = (list) => list.map(axes.place);
  const drawn = shown.map(([curve]) => place(knownOf(curve).filter((p) => p.valid)));
  const free = roomForLabels(viewport, rect, [...drawn, ...(axes.guides ?? [])]);
  shown.forEach(([curve, k]) => {
    const look = seriesLook(k);
    const known = knownOf(curve);
    const valid = known.filter((p) => p.valid);
    for (const [list, dash] of stretches(valid)) {
      layers.push({
        kind: 'line', points: place(list), colour: look.colour, width: 1.6, z: 4,
        dash: dash ? DOTTED : look.dash,
      });
    }
    layers.push(
      { kind: 'intervals', colour: look.colour, items: valid.map(axes.bar).filter(Boolean) },
      { kind: 'dots', points: place(valid), colour: look.colour, shape: look.shape, size: 8, z: 6 },
      {
        kind: 'dots', points: place(known.filter((p) => !p.valid)), colour: look.colour,
        shape: look.shape, size: 9, hollow: true, z: 6,
      },
      {
        kind: 'dots', points: place(valid.filter((p) => p.saturated)), colour: look.colour,
        shape: 'circle', size: RING, hollow: true, z: 5,
      },
      {
        kind: 'labels', colour: look.colour, size: 11, dx: 0,
        items: valid.filter((p) => axes.label(p)).map((p) => {
          const [x, y] = axes.place(p);
          return { x, y, text: axes.label(p) };
        }).filter((item) => viewport.contains(item.x, item.y)).map(free),
      },
    );
    for (const p of known) {
      const [x, y] = axes.place(p);
      counts.total += 1;
      if (viewport.contains(x, y)) counts.inView += 1;
      points.push({ x, y, lines: () => lines(p, curve, axes.response) });
    }
  });
  return { layers, points, counts };
}

// Puts a label beside its mark where it crosses no line, covers no mark and no other label; where
// there is no such place, where it does least of that. `paths`: what is drawn, as lists of points.
function roomForLabels(viewport, rect, paths) {
  const unit = {
    x: (viewport.x[1] - viewport.x[0]) / rect.w, y: (viewport.y[1] - viewport.y[0]) / rect.h,
  };
  const pixel = ([x, y]) => [(x - viewport.x[0]) / unit.x, (y - viewport.y[0]) / unit.y];
  const drawn = paths.map((path) => path.map(pixel));
  const segments = drawn.flatMap((path) => path.slice(1).map((to, i) => [path[i], to]));
  const marks = drawn.flat();
  const taken = [];
  const badness = (box) => {
    const outside = box.left < 0 || box.right > rect.w || box.low < 0 || box.high > rect.h;
    const count = (list, hits) => list.filter(hits).length;
    return 20 * outside
      + 20 * count(taken, (o) => box.left < o.right && o.left < box.right
        && box.low < o.high && o.low < box.high)
      + 5 * count(marks, ([x, y]) => x > box.left - 5 && x < box.right + 5
        && y > box.low - 4 && y < box.high + 4)
      + count(segments, (segment) => crosses(segment, box));
  };
  return (item) => {
    const [x, y] = pixel([item.x, item.y]);
    const size = { w: item.text.length * LETTER.w, h: LETTER.h };
    const boxes = places(x, y, size);
    const costs = boxes.map(badness);
    const best = boxes[costs.indexOf(Math.min(...costs))];
    taken.push(best);
    item.x = best.left * unit.x + viewport.x[0];
    item.y = (best.low + best.high) / 2 * unit.y + viewport.y[0];
    return item;
  };
}

// Where a label of this size may stand beside [x, y] (upwards positive), the best ones first.
function places(x, y, { w, h }) {
  const steps = [
    [OFF, 0], [OFF, 1], [-w / 2, 1.2], [OFF, -1], [-w / 2, -1.2], [-w - OFF, 0], [-w - OFF, 1],
    [-w - OFF, -1],
  ];
  return steps.map(([dx, level]) => {
    const middle = y + level * (h / 2 + OFF / 1.6);
    return { left: x + dx, right: x + dx + w, low: middle - h / 2, high: middle + h / 2 };
  });
}

// Whether a segment has a point within a box (Liang and Barsky's clipping).
function crosses([[x0, y0], [x1, y1]], box) {
  let [from, to] = [0, 1];
  const edges = [
    [x0 - x1, x0 - box.left], [x1 - x0, box.right - x0],
    [y0 - y1, y0 - box.low], [y1 - y0, box.high - y0],
  ];
  for (const [step, room] of edges) {
    if (step === 0) {
      if (room < 0) return false;
    } else if (step < 0) from = Math.max(from, room / step);
    else to = Math.min(to, room / step);
  }
  return from <= to;
}

// Pieces of a curve: [points, is overload], each beginning where the one before ended.
function stretches(valid) {
  const out = [];
  valid.slice(1).forEach((p, i) => {
    const last = out.at(-1);
    if (last && last[1] === p.overloaded) last[0].push(p);
    else out.push([[valid[i], p], p.overloaded]);
  });
  return out;
}

function lines(p, curve, responseOf) {
  const spread = ([, low, high], unit) => (low === null ? '' : `, ${interval(low, high, unit)}`);
  const [words, response] = responseOf(p);
  return [
    [quantity(p.achieved[0], RATE), `achieved of ${quantity(p.offered, RATE)} offered`
      + spread(p.achieved, RATE)],
    ...(response ? [[quantity(response[0], TIME), `${words}${spread(response, TIME)}`]] : []),
    ['', curve.label],
    ['', `${p.verdict}; median of ${p.runs} run${p.runs === 1 ? '' : 's'}`],
    ...p.reasons.map((reason) => ['', reason]),
  ];
}

function legend(load) {
  const own = load.curves.map((curve, k) => ({
    key: String(k), look: seriesLook(k), label: curve.label,
  }));
  const marks = load.curves.flatMap((curve) => curve.points);
  const sign = (shape, label, line = false, dash = undefined) => (
    { fixed: true, label, look: { colour: colour('muted'), shape, line, dash } });
  return [
    ...own,
    ...(marks.some((p) => p.saturated) ? [sign(CIRCLE, 'saturated')] : []),
    ...(marks.some((p) => p.overloaded) ? [sign('', 'overload', true, DOTTED)] : []),
    ...(marks.some((p) => !p.valid) ? [sign(SQUARE, 'hollow: does not count')] : []),
  ];
}

// Outlines as closed paths: the legend fills what it shows.
const CIRCLE = 'path://M5 -1a6 6 0 1 0 .01 0ZM5 .6a4.4 4.4 0 1 1 -.01 0Z';
const SQUARE = 'path://M0 0v10h10v-10ZM1.6 1.6h6.8v6.8h-6.8Z';

const one = (width) => facets(1, width, { height: HEIGHT / 1.35, titled: false });

const cutNote = (cut) => (cut ? ' Some intervals leave the figure: the table has them.' : '');
const leftNote = (load) => (load.left_out
  ? ` ${load.left_out} more curves are in the tables only.` : '');

const NONE = [null, null, null];
// The response time `name` of a point: of all operations, or of one.
function responseOf(p, name, operation = '') {
  if (!operation) return p.response[name];
  const value = p.operations?.[operation]?.[name];
  return value === undefined ? undefined : [value, null, null];
}

function numbers(load, operation = '') {
  const show = (unit) => (v) => quantity(v, unit);
  return {
    columns: [
      { label: 'curve' }, { label: 'offered', numeric: true, show: show(RATE) },
      { label: 'achieved', numeric: true, show: show(RATE) }, { label: 'interval' },
      ...load.responses.flatMap((name) => [
        { label: name, numeric: true, show: show(TIME) }, { label: `${name}, interval` }]),
      { label: 'runs', numeric: true }, { label: 'verdict' },
    ],
    rows: load.curves.flatMap((curve) => curve.points.map((p) => [
      curve.label, p.offered, p.achieved[0], interval(p.achieved[1], p.achieved[2], RATE),
      ...load.responses.flatMap((name) => {
        const [value, low, high] = responseOf(p, name, operation) ?? NONE;
        return [value, interval(low, high, TIME)];
      }),
      p.runs, p.verdict,
    ])),
  };
}

export function achievedFigure(model, id = 'load-achieved') {
  const { load } = model;
  const axes = {
    response: (p) => ['mean response', p.response.mean],
    label: (p) => (p.peak ? 'peak' : ''),
    place: (p) => [p.offered, p.achieved[0]],
    bar: (p) => (p.achieved[1] === null ? null
      : { at: p.offered, low: p.achieved[1], high: p.achieved[2] }),
  };

  function scene(width, viewport, hidden) {
    const { places, height } = one(width);
    const end = Math.min(load.offered_domain[1], load.achieved_domain[1]);
    const all = [[0, 0], [end, end]];
    const { layers, points, counts } = draw(load, hidden, viewport, { ...axes, guides: [all] },
      places[0].rect);
    layers.unshift({
      kind: 'line', points: all, colour: colour('muted'), dash: [6, 4],
      width: 1, z: 2,
    });
    return {
      width, height, counts, legend: [...legend(load), {
        fixed: true, label: 'all that is offered',
        look: { colour: colour('muted'), dash: [6, 4] },
      }],
      panels: [{
        rect: places[0].rect, layers, hover: { points },
        x: {
          domain: viewport.x, name: 'offered load', ticks: ticks(linear, viewport.x, 6, RATE),
        },
        y: {
          domain: viewport.y, name: 'achieved load', nameGap: 72,
          ticks: ticks(linear, viewport.y, 6, RATE),
        },
      }],
    };
  }

  return {
    id, title: 'Achieved against offered load', renderer: 'svg', axes: 'xy', scene,
    domain: () => ({ x: load.offered_domain, y: load.achieved_domain }),
    caption: () => 'Operations a second. Marks: median of the runs that count, bars: 95 % '
      + 'interval of the median. A ring: saturated.'
      + cutNote(load.achieved_cut) + leftNote(load),
    table: () => numbers(load),
  };
}

export function responseFigure(model, id = 'load-response') {
  const { load } = model;
  const state = { response: load.responses[0], operation: '', log: false };
  const scale = () => (state.log ? log : linear);
  const found = (p) => responseOf(p, state.response, state.operation);
  const domains = (kind) => (state.operation ? load.operation_domains[state.operation]
    : load.domains)[state.response]?.[kind];
  const axes = {
    response: (p) => [`${state.response} response${state.operation && ` of ${state.operation}`}`,
      found(p)],
    label: (p) => [p.peak && 'peak', p.knee && 'knee'].filter(Boolean).join(', '),
    place: (p) => {
      const value = found(p)?.[0] ?? null;
      return value === null || (state.log && value <= 0) ? null
        : [p.achieved[0], scale().to(value)];
    },
    bar: (p) => {
      const [, low, high] = found(p) ?? NONE;
      if (low === null || high === null || (state.log && low <= 0)) return null;
      return { at: p.achieved[0], low: scale().to(low), high: scale().to(high) };
    },
  };

  function scene(width, viewport, hidden) {
    const { places, height } = one(width);
    const { layers, points, counts } = draw(load, hidden, viewport, axes,
      places[0].rect);
    return {
      width, height, counts, legend: legend(load),
      panels: [{
        rect: places[0].rect, layers, hover: { points },
        x: {
          domain: viewport.x, name: 'achieved load', ticks: ticks(linear, viewport.x, 6, RATE),
        },
        y: {
          domain: viewport.y, name: `${state.response} response time`, nameGap: 72,
          ticks: ticks(scale(), viewport.y, 6, TIME),
        },
      }],
    };
  }

  const controls = (fig) => {
    const again = (key) => (value) => {
      state[key] = value;
      if (state.log && !domains('log')) state.log = false;
      fig.controls.replaceChildren(...controls(fig));
      fig.draw();
    };
    return [
      ...(load.responses.length < 2 ? [] : [select('Response time',
        load.responses.map((name) => [name, name]), state.response, again('response'))]),
      ...(load.operations.length < 2 ? [] : [select('Operation',
        [['', 'all'], ...load.operations.map((name) => [name, name])],
        state.operation, again('operation'))]),
      ...(domains('log') ? [checkbox('log scale', state.log, again('log'))] : []),
    ];
  };

  const marks = () => (state.operation
    ? `Marks: ${state.response} of all answers to ${state.operation} in the runs that count.`
    : `Marks: median over the runs of each run's ${state.response}; bars: 95 % interval of the `
      + `median.${cutNote(load.response_cut[state.response])}`);

  return {
    id, title: 'Response time against achieved load', renderer: 'svg', axes: 'xy', scene, controls,
    domain: () => ({ x: load.achieved_domain, y: domains(state.log ? 'log' : 'linear') }),
    caption: () => 'A curve joins its points by offered load: where it bends back, more is offered '
      + `and less achieved. ${marks()}${leftNote(load)}`,
    table: () => numbers(load, state.operation),
  };
}
