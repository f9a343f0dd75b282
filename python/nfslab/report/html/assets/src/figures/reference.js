// Figure: published figures beside measured ones. Hardware and years lie between them: what
// can be compared is the shape, and no spread was published with them.

import { select } from '../dom.js';
import { quantity } from '../format.js';
import { log, linear, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const ROW_PX = 26;

export function referenceFigure(model) {
  const { reference } = model;
  const state = { metric: reference.metrics[0] };
  const rows = () => reference.rows.filter((r) => r.metric === state.metric);
  const metric = () => model.metric(state.metric);
  const scale = () => (reference.domains[state.metric].scale === 'log' ? log : linear);

  function scene(width, viewport) {
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
    controls: (fig) => (reference.metrics.length < 2 ? [] : [select('Metric',
      reference.metrics.map((name) => [name, model.metric(name).label]), state.metric,
      (value) => { state.metric = value; fig.draw(); })]),
    domain: () => ({
      x: reference.domains[state.metric].positions, y: [0.4, rows().length + 0.6],
    }),
    caption: () => `${reference.title}. ${reference.source} The published figures carry no `
      + 'spread: whether a difference from them means anything is unknown. Compare the shape.',
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

