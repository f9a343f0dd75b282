// Figure: published figures beside measured ones. Hardware and years lie between them: what
// can be compared is the shape, and no spread was published with them.

import { select } from '../dom.js';
import { interval, quantity } from '../format.js';
import { facets } from '../layout.js';
import { levelTicks, linear, log, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const ROW_PX = 26;

export function referenceFigure(model) {
  const { reference } = model;
  const { curves } = reference;
  const state = { metric: reference.metrics[0], view: curves ? 'curves' : 'rows' };
  const rows = () => reference.rows.filter((r) => r.metric === state.metric);
  const metric = () => model.metric(state.metric);
  const scale = () => (reference.domains[state.metric].scale === 'log' ? log : linear);

  // One panel the published curves, one ours: same axis, same scale.
  function curveScene(width, viewport, hidden) {
    const axis = model.axes[curves.axis];
    const sides = [['published', curves.published], ['measured here', curves.measured]];
    const { places, height } = facets(2, width, { height: 300 });
    const counts = { total: 0, inView: 0, what: 'values' };
    const to = scale().to;
    const legend = [];
    const panels = sides.map(([title, byMetric], side) => {
      const { rect, first } = places[side];
      const layers = [];
      const points = [];
      byMetric[state.metric].forEach((curve, k) => {
        const look = seriesLook(side === 0 ? k + 2 : k);
        const key = `${side}-${k}`;
        legend.push({ key, label: `${curve.label}${side ? '' : ' (published)'}`, look });
        if (hidden.has(key)) return;
        const dots = curve.levels.map((l, i) => [axis.positions[l], to(curve.values[i])]);
        dots.forEach(([x, y], i) => {
          counts.total += 1;
          if (viewport.contains(x, y)) counts.inView += 1;
          points.push({
            x, y, lines: () => [
              [quantity(curve.values[i], metric().unit), `${curve.label}, ${title}`],
              ['', `${axis.name} ${axis.shown[curve.levels[i]]}`],
              ['', curve.low[i] === null ? 'spread unknown'
                : interval(curve.low[i], curve.high[i], metric().unit)],
            ],
          });
        });
        layers.push(
          { kind: 'line', points: dots, colour: look.colour, dash: look.dash, width: 1.5 },
          {
            kind: 'intervals', colour: look.colour,
            items: dots.map(([x], i) => [x, curve.low[i], curve.high[i]])
              .filter(([, low]) => low !== null && (scale() !== log || low > 0))
              .map(([at, low, high]) => ({ at, low: to(low), high: to(high) })),
          },
          {
            kind: 'dots', points: dots, colour: look.colour, shape: look.shape, size: 8, z: 6,
            hollow: side === 0,
          },
        );
      });
      return {
        rect, title, layers, hover: { points },
        x: {
          domain: viewport.x, name: model.axisTitle(curves.axis),
          ticks: levelTicks(axis.shown, axis.positions, viewport.x),
        },
        y: {
          domain: viewport.y, name: first ? metric().label : '', labels: first, nameGap: 72,
          ticks: ticks(scale(), viewport.y, 6, metric().unit),
        },
      };
    });
    return { width, height, panels, counts, legend };
  }

  const controls = (fig) => {
    const again = (key) => (value) => {
      state[key] = value;
      fig.hidden.clear();
      fig.draw();
    };
    return [
      ...(reference.metrics.length < 2 ? [] : [select('Metric',
        reference.metrics.map((name) => [name, model.metric(name).label]), state.metric,
        again('metric'))]),
      ...(curves ? [select('Show', [['curves', 'curves'], ['rows', 'row by row']], state.view,
        again('view'))] : []),
    ];
  };

  function scene(width, viewport, hidden) {
    return state.view === 'curves' ? curveScene(width, viewport, hidden)
      : rowScene(width, viewport);
  }

  function rowScene(width, viewport) {
    const list = rows();
    const left = Math.min(320, Math.max(120, width * 0.3));
    const rect = { x: left, y: 12, w: width - left - 24, h: Math.max(90, list.length * ROW_PX) };
    const at = (i) => list.length - i;
    const to = scale().to;
    const [ours, theirs] = [seriesLook(0), seriesLook(1)];
    const hover = [];
    const known = list.map((row, i) => [row, i]);
    for (const [row, i] of known) {
      if (row.published !== null) {
        hover.push({
          x: to(row.published), y: at(i),
          lines: () => [[quantity(row.published, metric().unit), 'published, spread unknown'],
            ['', row.published_label]],
        });
      }
      if (row.measured !== null) {
        hover.push({
          x: to(row.measured), y: at(i),
          lines: () => [[quantity(row.measured, metric().unit), `measured, median of ${row.n}`],
            ['', row.measured_label]],
        });
      }
    }
    const layers = [
      {
        kind: 'intervals', across: true, colour: ours.colour, items: known
          .filter(([row]) => row.low !== null && row.low > 0)
          .map(([row, i]) => ({ at: at(i), low: to(row.low), high: to(row.high) })),
      },
      {
        kind: 'dots', colour: ours.colour, shape: ours.shape, size: 9, z: 6,
        points: known.filter(([row]) => row.measured !== null)
          .map(([row, i]) => [to(row.measured), at(i)]),
      },
      {
        kind: 'dots', colour: theirs.colour, shape: theirs.shape, size: 9, z: 6, hollow: true,
        points: known.filter(([row]) => row.published !== null)
          .map(([row, i]) => [to(row.published), at(i)]),
      },
    ];
    const counts = {
      total: hover.length, what: 'values',
      inView: hover.filter((p) => viewport.contains(p.x, p.y)).length,
    };
    return {
      width, height: rect.h + 62, counts,
      legend: [
        { fixed: true, label: 'measured here', look: { ...ours, line: false } },
        { fixed: true, label: `published (${reference.title})`, look: { ...theirs, line: false } },
      ],
      panels: [{
        rect, layers, hover: { points: hover },
        x: {
          domain: viewport.x, name: metric().label, nameGap: 28,
          ticks: ticks(scale(), viewport.x, 6, metric().unit),
        },
        y: {
          domain: viewport.y, grid: false, labelWidth: left - 16,
          ticks: list.map((row, i) => ({ at: at(i), label: row.label }))
            .filter((t) => t.at >= viewport.y[0] && t.at <= viewport.y[1]),
        },
      }],
    };
  }

  const show = (v) => quantity(v, metric().unit);
  return {
    id: 'reference', title: 'Beside the published figures', renderer: 'svg', axes: 'xy', scene,
    controls,
    domain: () => {
      const { positions } = reference.domains[state.metric];
      return state.view === 'curves' ? { x: model.axes[curves.axis].domain, y: positions }
        : { x: positions, y: [0.4, rows().length + 0.6] };
    },
    caption: () => `${reference.title}. ${reference.source}. The published figures carry no `
      + 'spread: whether a difference from them means anything is unknown; compare the shapes. '
      + `Measured: median with ${model.interval.label}. ${reference.notes.join(' ')}`,
    table: () => ({
      columns: [{ label: 'row' }, { label: 'published', numeric: true, show },
        { label: 'measured', numeric: true, show }, { label: 'runs', numeric: true },
        { label: 'measured / published', numeric: true,
          show: (v) => (v === null ? '–' : `${quantity(v, '')} ×`) }],
      rows: rows().map((r) => [r.label, r.published, r.measured, r.n, r.ratio]),
      note: 'Significance unknown: the published table has no repetitions.',
    }),
  };
}

