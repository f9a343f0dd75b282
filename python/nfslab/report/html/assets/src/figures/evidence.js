// Figure: what the collectors saw during a run, under that run's throughput, on one time axis;
// a second run can stand beside it on the same scales. Zooming is linked with the figures
// over time above.

import { h, select } from '../dom.js';
import { column } from '../data.js';
import { number, quantity, share } from '../format.js';
import {
  TIME_NAME, firstPoint, loadPoint, pointOptions, timeDomain, timeLine, times,
} from '../frames.js';
import { LEFT, RIGHT, stacked } from '../layout.js';
import { linear, ticks } from '../scales.js';
import { colour, seriesLook } from '../theme.js';

const RATE_PX = 104;
const PANEL_PX = 84;
const PAPER_PX = 52; // all panels on one page
const NONE = '-1';

const shown = (value, unit) => (unit === 'share' ? share(value) : quantity(value, unit));
const axisTicks = (domain, unit) => (unit === 'share'
  ? ticks(linear, domain.map((v) => v * 100), 3, '').map((t) => (
    { ...t, at: t.value / 100, label: `${t.label} %` }))
  : ticks(linear, domain, 3, unit));

export function evidenceFigure(model) {
  const first = firstPoint(model);
  const runsWith = (p) => model.runsOf[p].filter((r) => model.runs.has_series[r]);
  const state = { point: [first, -1], run: [runsWith(first)[0] ?? model.runsOf[first][0], -1] };
  let loaded = [];

  const sides = () => [0, 1].filter((i) => state.point[i] >= 0);

  async function prepare() {
    loaded = await Promise.all([0, 1].map((i) => (state.point[i] < 0 ? null
      : loadPoint(model, state.point[i]))));
  }

  const dataOf = (i) => loaded[i]?.runs.get(state.run[i]);

  function keys() {
    const present = (panel) => sides().some((i) => dataOf(i)?.frames?.[panel.key]);
    return model.evidence.panels.filter(present);
  }

  function controls(fig) {
    const rebuild = () => { fig.controls.replaceChildren(...controls(fig)); fig.draw(); };
    const options = pointOptions(model);
    const out = [0, 1].flatMap((i) => {
      const choosePoint = (value) => {
        state.point[i] = Number(value);
        state.run[i] = Number(value) < 0 ? -1
          : runsWith(Number(value))[0] ?? model.runsOf[Number(value)][0];
        rebuild();
      };
      const list = i === 0 ? options : [[NONE, 'none'], ...options];
      const label = i === 0 ? 'Point' : 'beside';
      const parts = [select(label, list, String(state.point[i]), choosePoint)];
      if (state.point[i] >= 0) {
        parts.push(select('run', model.runsOf[state.point[i]].map((r) => [String(r),
          model.runLabel(r) + (model.runs.has_series[r] ? '' : ' (no series kept)')]),
        String(state.run[i]), (value) => { state.run[i] = Number(value); rebuild(); }));
      }
      return parts;
    });
    return out;
  }

  // Throughput of the run: one line, or one a phase (in the unit of the first).
  function ratePanel(i, place, viewport) {
    const unit = model.time.rates[0]?.unit;
    const lines = model.time.rates.filter((r) => r.unit === unit).flatMap((rate, k) => {
      const frame = dataOf(i)?.rates?.[rate.key];
      if (!frame) return [];
      const ts = times(loaded[i].chunk, frame).subarray(0, frame.whole);
      const values = column(loaded[i].chunk, frame.amount).map((v) => v / frame.dt);
      const paint = k ? seriesLook(k - 1) : { colour: colour('fg') };
      return [{ rate, ts, values, paint }];
    });
    if (!lines.length) return null;
    const top = Math.max(...model.time.rates.filter((r) => r.unit === unit).map((r) => r.most));
    const points = lines.flatMap(({ rate, ts, values }) =>
      Array.from(ts, (t, k) => [t, values[k], rate]));
    return {
      rect: place.rect, titleRise: 20,
      title: lines.length > 1 ? 'Throughput by phase' : lines[0].rate.label,
      marks: lines.length > 1 ? lines.map(({ rate, paint }) => (
        { text: rate.label.replace(/ throughput$/, ''), colour: paint.colour })) : [],
      layers: lines.flatMap(({ ts, values, paint }) => timeLine(
        Array.from(ts, (t, k) => [t, values[k]]), { colour: paint.colour, width: 1.3 })),
      x: axisX(viewport, place),
      y: { domain: [0, top * 1.04], ticks: axisTicks([0, top * 1.04], unit) },
      hover: { xs: points.map(([t]) => t), lines: (k) => [[quantity(points[k][0], 's', 4), ''],
        [quantity(points[k][1], unit), points[k][2].label]] },
    };
  }

  const axisX = (viewport, place) => ({
    domain: viewport.x, labels: place.last, name: place.last ? TIME_NAME : '',
    ticks: ticks(linear, viewport.x, 6, 's'),
  });

  function evidencePanel(panel, i, place, viewport) {
    const frame = dataOf(i)?.frames?.[panel.key];
    const result = {
      rect: place.rect, title: frame ? panel.title : `${panel.title}: not recorded in this run`,
      titleRise: 20, layers: [], x: axisX(viewport, place),
      y: { domain: panel.domain, ticks: axisTicks(panel.domain, panel.unit) },
    };
    if (!frame) return result;
    const ts = times(loaded[i].chunk, frame);
    const series = panel.series.filter((s) => frame.columns[s.column]).map((s) => ({
      ...s, values: column(loaded[i].chunk, frame.columns[s.column]), paint: paintOf(s),
    }));
    result.marks = series.map((s) => ({
      text: s.label, colour: s.paint.colour, block: panel.kind === 'stack',
      dashed: Array.isArray(s.paint.dash),
    }));
    if (panel.kind === 'stack') {
      result.layers.push({
        kind: 'stack', xs: ts, step: steps(panel),
        bands: series.map((s) => ({ values: s.values, colour: s.paint.colour })),
      });
    } else {
      for (const s of series) {
        result.layers.push({
          kind: 'line',
          points: Array.from(ts, (t, k) => [t, Number.isNaN(s.values[k]) ? null : s.values[k]]),
          colour: s.paint.colour, dash: s.paint.dash, width: 1.4, step: steps(panel),
        });
      }
    }
    result.hover = {
      xs: ts, lines: (k) => [[quantity(ts[k], 's', 4), panel.title],
        ...series.map((s) => [shown(s.values[k], panel.unit), s.label])],
    };
    return result;
  }

  // Whole things that were counted at an instant (tasks, backends): no slopes between them.
  const steps = (panel) => (panel.counts ? 'middle' : false);

  const paintOf = (s) => ({
    ...seriesLook(s.look ?? 0), ...(s.colour ? { colour: colour(s.colour) } : {}),
  });

  function scene(width, viewport, _hidden, paper = false) {
    const panels = keys();
    const columns = sides();
    const gap = 86;
    const w = (width - LEFT - RIGHT - gap * (columns.length - 1)) / columns.length;
    const rated = model.time.rates.length > 0;
    const heights = [...(rated ? [RATE_PX] : []), ...panels.map(() => PANEL_PX)]
      .map((px) => (paper ? PAPER_PX : px));
    const out = [];
    let height = 0;
    const counts = { total: 0, inView: 0, what: 'samples' };
    columns.forEach((i, c) => {
      const x = LEFT + c * (w + gap);
      const layout = stacked(heights, x, w, { gap: paper ? 30 : 36, top: 28 });
      height = layout.height;
      const rate = rated ? ratePanel(i, layout.places[0], viewport) : null;
      const head = `${model.pointLabel(state.point[i])}, ${model.runLabel(state.run[i])}`;
      if (rate) {
        out.push({ ...rate, title: columns.length > 1 ? `${head}: ${rate.title}` : rate.title });
      }
      panels.forEach((panel, k) => {
        const made = evidencePanel(panel, i, layout.places[k + (rated ? 1 : 0)], viewport);
        out.push(made);
        const xs = made.hover?.xs ?? [];
        counts.total += xs.length;
        xs.forEach((t) => { if (t >= viewport.x[0] && t <= viewport.x[1]) counts.inView += 1; });
      });
    });
    return {
      width, height, panels: out, counts, legend: [],
      legendExtra: panels.filter((panel) => !marksFit(panel, w)).map(legendLine),
    };
  }

  // A panel's title line carries its legend; one that is too long for it stands above.
  const marksFit = (panel, w) => w > 8 * panel.title.length
    + panel.series.reduce((sum, s) => sum + 34 + 6.6 * s.label.length, 0);

  const legendLine = (panel) => h('span', { class: 'group' }, h('b', {}, panel.title),
    panel.series.map((s) => {
      const chip = h('i', { class: panel.kind === 'stack' ? 'chip' : 'chip thin' });
      chip.style.color = paintOf(s).colour;
      return h('span', { class: 'entry' }, chip, s.label);
    }));

  function table() {
    const rows = [];
    for (const i of sides()) {
      for (const panel of keys()) {
        const frame = dataOf(i)?.frames?.[panel.key];
        if (!frame) continue;
        for (const s of panel.series) {
          if (!frame.columns[s.column]) continue;
          const facts = frame.facts[s.column];
          rows.push([`${model.pointLabel(state.point[i])}, ${model.runLabel(state.run[i])}`,
            panel.title, s.label, shown(facts.mean, panel.unit), shown(facts.most, panel.unit),
            frame.samples]);
        }
      }
    }
    return {
      columns: [{ label: 'run' }, { label: 'source' }, { label: 'quantity' },
        { label: 'mean of the samples' }, { label: 'most' }, { label: 'samples', numeric: true }],
      rows, note: 'Means and maxima over the collector\'s own samples during the timed part.',
    };
  }

  /** Show a run that was chosen elsewhere (the table of runs). */
  function show(fig, run) {
    state.point[0] = model.runs.point[run];
    state.run[0] = run;
    fig.controls.replaceChildren(...controls(fig));
    return fig.draw();
  }

  return {
    id: 'evidence', title: 'System evidence under each run', renderer: 'canvas', axes: 'x',
    link: 'time', prepare, controls, scene, table, show,
    domain: () => {
      const end = Math.max(...sides().map((i) => dataOf(i)?.end_s ?? 0));
      return { x: timeDomain(model.time.domain, end > 0 ? [0, end] : null), y: [0, 1] };
    },
    caption: () => {
      const frame = sides().map((i) => Object.values(dataOf(i)?.frames ?? {})[0]).find(Boolean);
      if (!frame) return 'No collector\'s tables were kept for this run.';
      const kept = frame.dt ? `means over bins of ${quantity(frame.dt, 's')} (about `
        + `1 in ${number(Math.max(1, frame.samples / frame.n), 2)} samples drawn)` : 'every sample';
      return `${model.pointLabel(state.point[0])}, ${model.runLabel(state.run[0])}: ${kept}; `
        + 'scales are those of the whole experiment. ' + model.evidence.note;
    },
  };
}

