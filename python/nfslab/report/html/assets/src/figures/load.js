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
const LABEL = { w: 62, h: 13 }; // room of "peak, knee" in pixels

// What both figures do; `axes`: how a point becomes [x, y] and the interval beside it.
function draw(load, hidden, viewport, axes, rect) {
  const layers = [];
  const points = [];
  const counts = { total: 0, inView: 0, what: 'points' };
  const free = roomForLabels(viewport, rect);
  load.curves.forEach((curve, k) => {
    if (hidden.has(String(k))) return;
    const look = seriesLook(k);
    const known = curve.points.filter((p) => axes.place(p) !== null);
    const valid = known.filter((p) => p.valid);
    const place = (list) => list.map(axes.place);
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
        kind: 'labels', colour: look.colour, size: 11, dx: 10,
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

// Labels of points that lie on each other go below each other.
function roomForLabels(viewport, rect) {
  const unit = {
    x: (viewport.x[1] - viewport.x[0]) / rect.w, y: (viewport.y[1] - viewport.y[0]) / rect.h,
  };
  const taken = [];
  return (item) => {
    const over = (other) => Math.abs(other.x - item.x) < LABEL.w * unit.x
      && Math.abs(other.y - item.y) < LABEL.h * unit.y;
    for (let other = taken.find(over); other; other = taken.find(over)) {
      item.y = other.y - LABEL.h * unit.y * 1.001;
    }
    taken.push(item);
    return item;
  };
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

function lines(p, curve, name) {
  const spread = ([, low, high], unit) => (low === null ? '' : `, ${interval(low, high, unit)}`);
  const response = p.response[name];
  return [
    [quantity(p.achieved[0], RATE), `achieved of ${quantity(p.offered, RATE)} offered`
      + spread(p.achieved, RATE)],
    ...(response ? [[quantity(response[0], TIME), `${name} response${spread(response, TIME)}`]]
      : []),
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

function numbers(load) {
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
        const [value, low, high] = p.response[name] ?? [null, null, null];
        return [value, interval(low, high, TIME)];
      }),
      p.runs, p.verdict,
    ])),
  };
}

export function achievedFigure(model, id = 'load-achieved') {
  const { load } = model;
  const axes = {
    response: 'mean',
    label: (p) => (p.peak ? 'peak' : ''),
    place: (p) => [p.offered, p.achieved[0]],
    bar: (p) => (p.achieved[1] === null ? null
      : { at: p.offered, low: p.achieved[1], high: p.achieved[2] }),
  };

  function scene(width, viewport, hidden) {
    const { places, height } = one(width);
    const { layers, points, counts } = draw(load, hidden, viewport, axes,
      places[0].rect);
    const end = Math.min(load.offered_domain[1], load.achieved_domain[1]);
    layers.unshift({
      kind: 'line', points: [[0, 0], [end, end]], colour: colour('muted'), dash: [6, 4],
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
      + 'interval of the median. A ring: less than 98 % of the offered load was achieved.'
      + cutNote(load.achieved_cut) + leftNote(load),
    table: () => numbers(load),
  };
}

export function responseFigure(model, id = 'load-response') {
  const { load } = model;
  const state = { response: load.responses[0], log: false };
  const scale = () => (state.log ? log : linear);
  const axes = {
    get response() { return state.response; },
    label: (p) => [p.peak && 'peak', p.knee && 'knee'].filter(Boolean).join(', '),
    place: (p) => {
      const value = p.response[state.response]?.[0] ?? null;
      return value === null || (state.log && value <= 0) ? null
        : [p.achieved[0], scale().to(value)];
    },
    bar: (p) => {
      const [, low, high] = p.response[state.response] ?? [null, null, null];
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
      if (state.log && !load.response_log_domains[state.response]) state.log = false;
      fig.controls.replaceChildren(...controls(fig));
      fig.draw();
    };
    return [
      ...(load.responses.length < 2 ? [] : [select('Response time',
        load.responses.map((name) => [name, name]), state.response, again('response'))]),
      ...(load.response_log_domains[state.response]
        ? [checkbox('log scale', state.log, again('log'))] : []),
    ];
  };

  return {
    id, title: 'Response time against achieved load', renderer: 'svg', axes: 'xy', scene, controls,
    domain: () => ({
      x: load.achieved_domain,
      y: (state.log ? load.response_log_domains : load.response_domains)[state.response],
    }),
    caption: () => 'A curve joins its points by offered load: where it bends back, more is offered '
      + `and less achieved. Marks: median over the runs of each run's ${state.response}; bars: `
      + '95 % interval of the median.'
      + cutNote(load.response_cut[state.response]) + leftNote(load),
    table: () => numbers(load),
  };
}
