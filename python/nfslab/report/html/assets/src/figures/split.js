// Figure: where the time of calls goes, as far as TCP's acknowledgements tell: network or
// server. One bar a capture and operation.

import { quantity } from '../format.js';
import { linear, ticks } from '../scales.js';
import { colour } from '../theme.js';

const ROW_PX = 28;

export function splitFigure(model, id = 'split') {
  const { split } = model;
  const n = split.rows.length;

  function scene(width, viewport) {
    const left = Math.min(260, Math.max(120, width * 0.25));
    const rect = { x: left, y: 26, w: width - left - 110, h: Math.max(80, n * ROW_PX) };
    const parts = split.parts.map((part) => ({ ...part, paint: colour(part.colour) }));
    const layers = parts.map((part, k) => ({
      kind: 'bars', colour: part.paint,
      items: split.rows.map((row, i) => {
        const from = row.values.slice(0, k).reduce((a, b) => a + b, 0);
        return { at: n - i, from, to: from + row.values[k] };
      }),
    }));
    layers.push({
      kind: 'labels', colour: colour('muted'), dx: 8, items: split.rows.map((row, i) => ({
        x: Math.min(viewport.x[1], row.values.reduce((a, b) => a + b, 0)), y: n - i,
        text: quantity(row.values.reduce((a, b) => a + b, 0), 's'),
      })),
    });
    return {
      width, height: rect.h + 76, counts: { total: n, inView: n, what: 'rows' },
      panels: [{
        rect, title: split.title, titleRise: 20, layers,
        marks: parts.map((part) => ({ text: part.label, colour: part.paint, block: true })),
        x: {
          domain: viewport.x, name: split.x_name, nameGap: 28,
          ticks: ticks(linear, viewport.x, 7, 's'),
        },
        y: {
          domain: viewport.y, grid: false, labelWidth: left - 16,
          ticks: split.rows.map((row, i) => ({ at: n - i, label: row.label })),
        },
        hover: {
          at: (_, y) => {
            const row = split.rows[n - Math.round(y)];
            return row ? [[row.label, row.note], ...row.values.map((v, k) => [
              quantity(v, 's'), split.parts[k].label])] : null;
          },
        },
      }],
    };
  }

  return {
    id, title: 'Network or server', renderer: 'svg', axes: 'x', scene,
    domain: () => ({ x: split.domain, y: [0.4, n + 0.6] }),
    caption: () => split.note,
    table: () => ({
      columns: [{ label: 'what' }, ...split.parts.map((part) => ({
        label: part.label, numeric: true, show: (v) => quantity(v, 's'),
      })), { label: 'note' }],
      rows: split.rows.map((row) => [row.label, ...row.values, row.note]),
    }),
  };
}
