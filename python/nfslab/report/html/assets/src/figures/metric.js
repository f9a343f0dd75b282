// Figure: a metric against each numeric axis; lines are another axis, panels the rest. Every
// single run is a faint dot, whatever its value; the median with its interval stands on top.

import { checkbox, select } from '../dom.js';
import { interval, quantity } from '../format.js';
import { facets } from '../layout.js';
import { levelTicks, linear, log, ticks } from '../scales.js';
import { colour, seriesLook } from '../theme.js';

const MOST_PANELS = 24;
const DODGE_PX = 15; // between the lines of one panel, so that bars do not cover each other
const ROOM_PX = 48; // for all lines of one level
const BESIDE = 0.42; // of the dodge: single runs stand to the left of their bar
const NONE = '-1';

function cartesian(model, axes) {
  return axes.reduce((all, a) => all.flatMap((combination) =>
    model.axes[a].levels.map((_, k) => [...combination, [a, k]])), [[]]);
}

export function metricFigure(model) {
  const numericAxes = model.varying.filter((a) => model.axes[a].numeric);
  const state = {
    metric: model.primary.name, x: model.facets.x, series: model.facets.series, log: null,
  };
  const metric = () => model.metric(state.metric);
  const scale = () => ((state.log ?? metric().scale === 'log') ? log : linear);
  const panelAxes = () => model.varying.filter((a) => a !== state.x && a !== state.series);

  function controls(fig) {
    const again = (key, convert = (v) => v) => (value) => {
      state[key] = convert(value);
      if (key === 'metric') state.log = null;
      if (state.series === state.x) state.series = -1;
      fig.hidden.clear();
      rebuild(fig);
      fig.draw();
    };
    const rebuild = (f) => f.controls.replaceChildren(...controls(f));
    const out = [select('Metric', model.metrics.map((m) => [m.name, m.label]), state.metric,
      again('metric'))];
    if (numericAxes.length > 1) {
      out.push(select('Against', numericAxes.map((a) => [String(a), model.axes[a].name]),
        String(state.x), again('x', Number)));
    }
    const others = model.varying.filter((a) => a !== state.x);
    if (others.length) {
      const lines = others.map((a) => [String(a), model.axes[a].name]);
      out.push(select('Lines', [[NONE, 'one'], ...lines],
        String(state.series), again('series', Number)));
    }
    if (metric().positive) {
      out.push(checkbox('log scale', scale() === log, again('log')));
    }
    return out;
  }

  function domain() {
    const m = metric();
    const axis = model.axes[state.x];
    return { x: axis.domain, y: scale() === log ? m.log_domain : m.domain };
  }

  function groups() {
    const axes = panelAxes();
    const combinations = cartesian(model, axes);
    return combinations.map((combination) => ({
      combination,
      title: combination.map(([a, k]) => (model.axes[a].numeric
        ? `${model.axes[a].name} ${model.level(a, k)}` : model.level(a, k))).join(' · '),
      points: model.points.map((_, i) => i).filter((i) =>
        combination.every(([a, k]) => model.points[i].levels[a] === k)),
    })).filter((g) => g.points.length);
  }

  const keyOf = (point) => (state.series < 0 ? 0 : model.points[point].levels[state.series]);

  function panelLayers(group, hidden, viewport, rect, counts, series) {
    const layers = [];
    const hover = [];
    const unit = (viewport.x[1] - viewport.x[0]) / rect.w;
    const to = scale().to;
    const m = metric();
    const e = model.estimates[m.name];
    const sorted = [...model.axes[state.x].positions].sort((a, b) => a - b);
    const gaps = sorted.slice(1).map((p, i) => p - sorted[i]).filter((gap) => gap > 0);
    const room = Math.min(ROOM_PX * unit, 0.5 * Math.min(...gaps, Infinity));
    const present = series.filter((k) => !hidden.has(String(k)));
    present.forEach((k, rank) => {
      const look = seriesLook(k);
      const dodge = Math.min(DODGE_PX * unit, room / present.length);
      const shift = (rank - (present.length - 1) / 2) * dodge;
      const at = (p) => model.axes[state.x].positions[model.points[p].levels[state.x]] + shift;
      const mine = group.points.filter((p) => keyOf(p) === k)
        .sort((p, q) => at(p) - at(q));
      const cloud = [];
      for (const p of mine) {
        for (const run of model.runsOf[p]) {
          const value = model.value(m.name, run);
          if (value === null) continue;
          const spread = ((model.runs.block[run] % 5) - 2) * 0.05 * dodge - BESIDE * dodge;
          const dot = [at(p) + spread, to(value)];
          cloud.push(dot);
          counts.total += 1;
          if (viewport.contains(at(p) - shift, dot[1])) counts.inView += 1;
          hover.push({ x: dot[0], y: dot[1], lines: () => model.runLines(m, run) });
        }
      }
      layers.push({
        kind: 'dots', points: cloud, colour: look.colour, size: 5.5, opacity: 0.55, z: 6, rim: true,
      });
      const known = mine.filter((p) => e.median[p] !== null);
      layers.push({
        kind: 'line', points: known.map((p) => [at(p), to(e.median[p])]), colour: look.colour,
        dash: look.dash, width: 1.5, opacity: 0.85,
      });
      layers.push({
        kind: 'intervals', colour: look.colour, z: 5,
        items: known.filter((p) => e.low[p] !== null && (scale() !== log || e.low[p] > 0))
          .map((p) => ({ at: at(p), low: to(e.low[p]), high: to(e.high[p]) })),
      });
      layers.push({
        kind: 'dots', points: known.map((p) => [at(p), to(e.median[p])]), colour: look.colour,
        shape: look.shape, size: 8, z: 7,
      });
      for (const p of known) {
        hover.push({
          x: at(p), y: to(e.median[p]),
          lines: () => [...model.estimateLines(m, p), ['', model.pointLabel(p)]],
        });
      }
    });
    return { layers, hover: { points: hover.reverse() } };
  }

  function scene(width, viewport, hidden) {
    const all = groups();
    const shown = all.slice(0, MOST_PANELS);
    const axis = model.axes[state.x];
    const m = metric();
    const { places, height } = facets(shown.length, width, { titled: shown.length > 1 });
    const counts = { total: 0, inView: 0, what: 'runs' };
    const used = [...new Set(model.points.map((_, i) => keyOf(i)))].sort((a, b) => a - b);
    const panels = shown.map((group, i) => {
      const { rect, first, last } = places[i];
      return {
        rect, title: shown.length > 1 ? group.title : '', frame: true,
        x: {
          domain: viewport.x, name: last ? model.axisTitle(state.x) : '', labels: true,
          ticks: levelTicks(axis.shown, axis.positions, viewport.x),
        },
        y: {
          domain: viewport.y, name: first ? m.label : '', labels: first,
          ticks: ticks(scale(), viewport.y, 6, m.unit), nameGap: 72,
        },
        ...panelLayers(group, hidden, viewport, rect, counts, used),
      };
    });
    const legend = state.series < 0 ? [] : used.map((k) => ({
      key: String(k), look: seriesLook(k), label: `${model.axes[state.series].numeric
        ? `${model.axes[state.series].name} ` : ''}${model.level(state.series, k)}`,
    }));
    return { width, height, panels, counts, legend, left: all.length - shown.length };
  }

  function caption(drawn) {
    const m = metric();
    const from = scale() === log ? 'Log scale'
      : m.domain[0] === 0 ? 'The scale starts at 0' : 'The scale does not start at 0';
    const cut = drawn.left ? ` The first ${MOST_PANELS} panels; ${drawn.left} more are in the `
      + 'table below.' : '';
    return `${m.label}${m.better ? `, ${m.better} is better` : ''}. Marks: median of the runs at `
      + `a point, bars: ${model.interval.label}; every faint dot is one run, none left out. `
      + `${from}, the same in all panels.${cut}`;
  }

  return {
    id: 'metric', title: 'Against each axis', renderer: 'svg', axes: 'xy',
    caption, controls, domain, scene, table: () => pointTable(model, metric()),
  };
}

/** The estimates of all points for one metric, as a table. */
export function pointTable(model, m) {
  const e = model.estimates[m.name];
  const show = (v) => quantity(v, m.unit);
  return {
    columns: [
      ...model.varying.map((a) => ({ label: model.axisTitle(a), numeric: model.axes[a].numeric })),
      ...(model.varying.length ? [] : [{ label: 'point' }]),
      { label: 'runs', numeric: true }, { label: 'median', numeric: true, show },
      { label: 'interval', show: (v) => v },
      { label: 'mean', numeric: true, show }, { label: 'standard deviation', numeric: true, show },
      { label: 'least', numeric: true, show }, { label: 'most', numeric: true, show },
    ],
    rows: model.points.map((p, i) => [
      ...model.varying.map((a) => (model.axes[a].numeric
        ? model.axes[a].values[p.levels[a]] : model.level(a, p.levels[a]))),
      ...(model.varying.length ? [] : [p.label]),
      e.n[i], e.median[i], interval(e.low[i], e.high[i], m.unit), e.mean[i], e.stdev[i],
      e.min[i], e.max[i],
    ]),
    note: `Intervals: ${model.interval.label}.`,
  };
}
