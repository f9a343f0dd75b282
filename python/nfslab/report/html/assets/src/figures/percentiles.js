// Figure: the latency distribution as percentiles, on the axis that HdrHistogram's plots use:
// each further nine takes the same room. One line a run: no pooling over repetitions.

import { select } from '../dom.js';
import { column } from '../data.js';
import { quantileName, quantity } from '../format.js';
import { firstPoint, loadPoint, pointOptions } from '../frames.js';
import { LEFT, RIGHT } from '../layout.js';
import { log, nines, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const HEIGHT = 300;
const NONE = '-1';

export function percentilesFigure(model) {
  const { latency } = model;
  const state = { points: [firstPoint(model), -1], kind: latency.kinds[0].key };
  if (model.points.length > 1) {
    const others = pointOptions(model).map(([k]) => Number(k)).filter((p) => p !== state.points[0]);
    state.points[1] = others.at(-1) ?? -1;
  }
  let loaded = [];

  const chosen = () => state.points.filter((p, i) => p >= 0 && state.points.indexOf(p) === i);

  async function prepare() {
    loaded = await Promise.all(chosen().map((p) => loadPoint(model, p)));
  }

  function curves() {
    return chosen().flatMap((point, k) => model.runsOf[point].flatMap((run) => {
      const frame = loaded[k]?.runs.get(run)?.quantiles?.[state.kind];
      if (!frame) return [];
      return [{ point, k, run, frame, values: column(loaded[k].chunk, frame.values) }];
    }));
  }

  function controls(fig) {
    const options = pointOptions(model);
    const again = (i) => (value) => { state.points[i] = Number(value); fig.draw(); };
    return [
      ...(latency.kinds.length > 1 ? [select('Operation',
        latency.kinds.map((k) => [k.key, k.label]),
        state.kind, (value) => { state.kind = value; fig.draw(); })] : []),
      select('Point', options, String(state.points[0]), again(0)),
      ...(options.length > 1 ? [select('beside', [[NONE, 'none'], ...options],
        String(state.points[1]), again(1))] : []),
    ];
  }

  function scene(width, viewport, hidden) {
    const rect = { x: LEFT, y: 16, w: width - LEFT - RIGHT, h: HEIGHT };
    const layers = [];
    const hover = [];
    const counts = { total: 0, inView: 0, what: 'percentile marks' };
    const all = curves();
    for (const { point, k, run, values } of all) {
      if (hidden.has(String(point))) continue;
      const look = seriesLook(k);
      const points = [];
      latency.quantiles.forEach((q, i) => {
        if (Number.isNaN(values[i]) || q >= 1) return;
        const dot = [nines.to(q), log.to(values[i])];
        points.push(dot);
        counts.total += 1;
        if (viewport.contains(...dot)) counts.inView += 1;
        hover.push({
          x: dot[0], y: dot[1], lines: () => [
            [quantity(values[i], 's'), `${quantileName(q)} of ${model.runLabel(run)}`],
            ['', model.pointLabel(point)],
          ],
        });
      });
      layers.push({
        kind: 'line', points, colour: look.colour, dash: look.dash, width: 1.4, opacity: 0.8,
      });
      if (points.length) {
        layers.push({
          kind: 'dots', points: [points.at(-1)], colour: look.colour, shape: look.shape, size: 7,
        });
      }
    }
    return {
      width, height: HEIGHT + 66, counts, empty: !all.length,
      legend: chosen().map((p, k) => ({
        key: String(p), look: seriesLook(k), label: model.pointLabel(p),
      })),
      panels: [{
        rect, layers, hover: { points: hover },
        x: {
          domain: viewport.x, name: 'share of the operations that were at least this fast',
          ticks: ticks(nines, viewport.x),
        },
        y: {
          domain: viewport.y, name: 'latency', nameGap: 72, ticks: ticks(log, viewport.y, 6, 's'),
        },
      }],
    };
  }

  return {
    id: 'percentiles', title: 'Latency distribution', renderer: 'svg', axes: 'xy',
    prepare, controls, scene,
    domain: () => ({ x: latency.nines_domain, y: latency.domain }),
    caption: (drawn) => (drawn.empty ? 'No latencies were recorded for these points.'
      : `Latency by percentile, one line a run; a line ends where a run has no more than one `
      + `operation beyond. ${latency.quantile_method} One scale for all points.`),
    table: () => {
      const wanted = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1];
      const at = wanted.map((q) => latency.quantiles.findIndex((v) => Math.abs(v - q) < 1e-12));
      return {
        columns: [{ label: 'point' }, { label: 'run' }, { label: 'operations', numeric: true },
          ...wanted.map((q) => ({
            label: quantileName(q), numeric: true, show: (v) => quantity(v, 's'),
          }))],
        rows: curves().map(({ point, run, frame, values }) => [model.pointLabel(point),
          model.runLabel(run), frame.total, ...at.map((i) => (i < 0 ? null : values[i]))]),
        note: latency.quantile_method,
      };
    },
  };
}
