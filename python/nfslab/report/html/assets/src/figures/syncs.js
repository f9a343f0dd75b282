// Figures: successive syncs as points, with their levels and the changes between them; and their
// distribution as percentiles. A series is one kind of call on one class of files; both figures
// draw the same ones in the same colours.

import { select } from '../dom.js';
import { count, quantileName, quantity } from '../format.js';
import { LEFT, RIGHT } from '../layout.js';
import { linear, log, nines, ticks } from '../scales.js';
import { colour, seriesLook } from '../theme.js';

const HEIGHT = 340;
const LABEL_PX = 15;
const LEVEL_PX = 2.4;

const legend = (syncs) => syncs.series.map((one, k) => (
  { key: String(k), look: seriesLook(k), label: one.label }));

const leftNote = (syncs) => (syncs.left_out
  ? ` ${syncs.left_out} more kinds of syncs are in the table only.` : '');

export function syncsFigure(model, id = 'syncs') {
  const { syncs } = model;
  const state = { over: 'call' };
  const place = (mark) => (state.over === 'call' ? mark.call : mark.t);

  function marks(one, k, viewport, rect, taken) {
    const look = seriesLook(k);
    const layers = [{
      kind: 'rules', axis: 'x', colour: look.colour,
      items: one.changes.map((change) => ({ at: place(change) })),
    }];
    for (const level of one.levels) {
      const [from, to] = state.over === 'call' ? level.calls : level.t;
      const y = log.to(level.median_s);
      // A rim in the page's colour: the level stays visible on its own points.
      for (const [paint, width] of [[colour('bg'), LEVEL_PX + 2.4], [look.colour, LEVEL_PX]]) {
        layers.push({ kind: 'line', points: [[from, y], [to, y]], colour: paint, width, z: 6 });
      }
    }
    const high = viewport.y[1];
    const step = (LABEL_PX / rect.h) * (viewport.y[1] - viewport.y[0]);
    layers.push({
      kind: 'labels', colour: look.colour, size: 11, dx: 5, bold: true,
      items: one.changes.filter((change) => change.label
        && place(change) >= viewport.x[0] && place(change) <= viewport.x[1])
        .map((change) => {
          taken.n += 1;
          return { x: place(change), y: high - step * (taken.n - 0.4), text: change.label };
        }),
    });
    return layers;
  }

  function scene(width, viewport, hidden) {
    const rect = { x: LEFT, y: 16, w: width - LEFT - RIGHT, h: HEIGHT };
    const points = [];
    const under = [];
    const over = [];
    const taken = { n: 0 };
    const counts = { total: 0, inView: 0, what: 'syncs drawn' };
    syncs.series.forEach((one, k) => {
      if (hidden.has(String(k))) return;
      const look = seriesLook(k);
      const dots = one.y.map((y, i) => [state.over === 'call' ? one.call[i] : one.t[i], y]);
      counts.total += dots.length;
      const seen = dots.filter(([x, y]) => viewport.contains(x, y));
      counts.inView += seen.length;
      dots.forEach(([x, y], i) => points.push({
        x, y, lines: () => [
          [quantity(10 ** y, 's'), one.label],
          ['', `call ${count(one.call[i])} of ${count(one.calls)}, at ${quantity(one.t[i], 's')}`],
        ],
      }));
      under.push({
        kind: 'dots', points: seen, colour: look.colour, shape: look.shape,
        size: seen.length > 3000 ? 3 : 4.5, opacity: seen.length > 3000 ? 0.45 : 0.7,
      });
      over.push(...marks(one, k, viewport, rect, taken));
    });
    return {
      width, height: HEIGHT + 66, counts, legend: legend(syncs),
      panels: [{
        rect, layers: [...under, ...over], hover: { points },
        x: state.over === 'call'
          ? { domain: viewport.x, name: 'number of the call', ticks: ticks(linear, viewport.x, 7) }
          : {
            domain: viewport.x, name: 'time', ticks: ticks(linear, viewport.x, 7, 's'),
          },
        y: {
          domain: viewport.y, name: 'time of the call', nameGap: 72,
          ticks: ticks(log, viewport.y, 6, 's'),
        },
      }],
    };
  }

  const controls = (fig) => [select('Draw', [['call', 'by number of the call'],
    ['t', 'over time']], state.over, (value) => { state.over = value; fig.draw(); })];

  return {
    id, title: 'Successive syncs', renderer: 'canvas', axes: 'xy', scene, controls,
    domain: () => ({
      x: state.over === 'call' ? syncs.calls_domain : syncs.time_domain, y: syncs.domain,
    }),
    caption: () => {
      const strides = syncs.series.filter((one) => one.stride > 1);
      const thin = strides.length ? ` Of long series one call in ${strides.map((one) => one.stride)
        .join(', ')} is drawn, and the slowest of each.` : '';
      return 'Each point is one call. Thick lines: medians between changes; dashed: where the '
        + `level changes.${thin}${leftNote(syncs)}`;
    },
    table: () => ({
      columns: [{ label: 'series' }, { label: 'from call', numeric: true, show: count },
        { label: 'calls', numeric: true, show: count },
        { label: 'begins at', numeric: true, show: (v) => quantity(v, 's') },
        { label: 'median', numeric: true, show: (v) => quantity(v, 's') },
        { label: 'p of the change before', numeric: true, show: (v) => (v === null ? '–'
          : v.toPrecision(2)) }],
      rows: syncs.series.flatMap((one) => one.levels.map((level, i) => [one.label,
        level.calls[0] + 0.5, level.n, level.t[0], level.median_s,
        i ? one.changes[i - 1].p : null])),
    }),
  };
}

export function syncPercentilesFigure(model, id = 'sync-percentiles') {
  const { syncs } = model;

  function scene(width, viewport, hidden) {
    const rect = { x: LEFT, y: 16, w: width - LEFT - RIGHT, h: HEIGHT * 0.75 };
    const layers = [];
    const points = [];
    const counts = { total: 0, inView: 0, what: 'percentile marks' };
    syncs.series.forEach((one, k) => {
      if (hidden.has(String(k))) return;
      const look = seriesLook(k);
      const line = [];
      syncs.quantiles.forEach((q, i) => {
        const value = one.quantiles_s[i];
        if (value === null || q >= 1) return;
        const dot = [nines.to(q), log.to(value)];
        line.push(dot);
        counts.total += 1;
        if (viewport.contains(...dot)) counts.inView += 1;
        points.push({
          x: dot[0], y: dot[1],
          lines: () => [[quantity(value, 's'), `${quantileName(q)} of ${one.label}`]],
        });
      });
      layers.push(
        { kind: 'line', points: line, colour: look.colour, dash: look.dash, width: 1.5 },
        { kind: 'dots', points: line.slice(-1), colour: look.colour, shape: look.shape, size: 7 },
      );
    });
    return {
      width, height: rect.h + 66, counts, legend: legend(syncs),
      panels: [{
        rect, layers, hover: { points },
        x: {
          domain: viewport.x, name: 'share of the calls that were at least this fast',
          ticks: ticks(nines, viewport.x),
        },
        y: {
          domain: viewport.y, name: 'time of the call', nameGap: 72,
          ticks: ticks(log, viewport.y, 6, 's'),
        },
      }],
    };
  }

  return {
    id, title: 'How syncs are spread', renderer: 'svg', axes: 'xy', scene,
    domain: () => ({ x: syncs.nines_domain, y: syncs.domain }),
    caption: () => 'Time of the call by percentile; a line ends where the calls are too few to '
      + `tell more.${leftNote(syncs)}`,
    table: () => {
      const wanted = [0, 0.5, 0.9, 0.99, 0.999, 1];
      const at = wanted.map((q) => syncs.quantiles.findIndex((v) => Math.abs(v - q) < 1e-12));
      return {
        columns: [{ label: 'series' }, { label: 'calls', numeric: true, show: count },
          ...wanted.map((q) => ({
            label: quantileName(q), numeric: true, show: (v) => quantity(v, 's'),
          }))],
        rows: syncs.series.map((one) => [one.label, one.calls,
          ...at.map((i) => (i < 0 ? null : one.quantiles_s[i]))]),
      };
    },
  };
}
