// Figure: one row a point (forest style): the median with its interval, every run a dot. The
// main figure of designs without a numeric axis, and a second view of all others.

import { checkbox, select } from '../dom.js';
import { quantity } from '../format.js';
import { linear, log, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';
import { pointTable } from './metric.js';

const ROW_PX = (rows) => (rows > 40 ? 20 : 30);
const LEAST_PX = 120;

export function pointsFigure(model) {
  const state = { metric: model.primary.name, log: null };
  const metric = () => model.metric(state.metric);
  const scale = () => ((state.log ?? metric().scale === 'log') ? log : linear);
  const n = model.points.length;
  const rowOf = (i) => n - i;

  function controls(fig) {
    const again = (key) => (value) => {
      state[key] = value;
      if (key === 'metric') state.log = null;
      fig.controls.replaceChildren(...controls(fig));
      fig.draw();
    };
    return [
      select('Metric', model.metrics.map((m) => [m.name, m.label]), state.metric, again('metric')),
      ...(metric().positive ? [checkbox('log scale', scale() === log, again('log'))] : []),
    ];
  }

  function scene(width, viewport) {
    const m = metric();
    const e = model.estimates[m.name];
    const to = scale().to;
    const left = Math.min(300, Math.max(110, width * 0.28));
    const right = width > 640 ? 190 : 18;
    const rows = Math.max(LEAST_PX, n * ROW_PX(n));
    const rect = { x: left, y: 12, w: width - left - right, h: rows };
    const counts = { total: 0, inView: 0, what: 'runs' };
    const hover = [];
    const cloud = [];
    model.points.forEach((_, p) => {
      for (const run of model.runsOf[p]) {
        const value = model.value(m.name, run);
        if (value === null) continue;
        const dot = [to(value), rowOf(p) - 0.24 + ((model.runs.block[run] % 5) - 2) * 0.04];
        cloud.push(dot);
        counts.total += 1;
        if (viewport.contains(dot[0], dot[1])) counts.inView += 1;
        hover.push({ x: dot[0], y: dot[1], lines: () => model.runLines(m, run) });
      }
    });
    const look = seriesLook(0);
    const known = model.points.map((_, p) => p).filter((p) => e.median[p] !== null);
    for (const p of known) {
      hover.unshift({
        x: to(e.median[p]), y: rowOf(p),
        lines: () => [...model.estimateLines(m, p), ['', model.pointLabel(p)]],
      });
    }
    const layers = [
      {
        kind: 'dots', points: cloud, colour: look.colour, size: 6.5, opacity: 0.55, z: 6, rim: true,
      },
      {
        kind: 'intervals', across: true, colour: look.colour, width: 2, z: 5,
        items: known.filter((p) => e.low[p] !== null && (scale() !== log || e.low[p] > 0))
          .map((p) => ({ at: rowOf(p), low: to(e.low[p]), high: to(e.high[p]) })),
      },
      {
        kind: 'dots', points: known.map((p) => [to(e.median[p]), rowOf(p)]),
        colour: look.colour, shape: 'diamond', size: 11, z: 7,
      },
    ];
    if (right > 100) {
      layers.push({
        kind: 'labels', colour: 'inherit', dx: 12, items: known.map((p) => ({
          x: viewport.x[1], y: rowOf(p), colour: seriesLook(0).colour,
          text: `${quantity(e.median[p], m.unit)}  (n ${e.n[p]})`,
        })),
      });
    }
    return {
      width, height: rows + 60, counts,
      panels: [{
        rect, layers, hover: { points: hover },
        x: {
          domain: viewport.x, name: m.label, nameGap: 28,
          ticks: ticks(scale(), viewport.x, width > 700 ? 7 : 4, m.unit),
        },
        y: {
          domain: viewport.y, grid: false, labelWidth: left - 16,
          ticks: model.points.map((_, i) => ({ at: rowOf(i), label: model.pointLabel(i) }))
            .filter((t) => t.at >= viewport.y[0] && t.at <= viewport.y[1]),
        },
      }],
    };
  }

  return {
    id: 'points', title: 'Every point and every run', renderer: 'svg', axes: 'xy', controls, scene,
    domain: () => ({
      x: scale() === log ? metric().log_domain : metric().domain, y: [0.4, n + 0.6],
    }),
    caption: () => `${metric().label}${metric().better ? `, ${metric().better} is better` : ''}. `
      + `Diamond: median of the runs at a point, bar: ${model.interval.label}; every faint dot is `
      + `one run, none left out. ${scale() === log ? 'Log scale.'
        : metric().domain[0] === 0 ? 'The scale starts at 0.' : 'The scale does not start at 0.'}`,
    table: () => pointTable(model, metric()),
  };
}

