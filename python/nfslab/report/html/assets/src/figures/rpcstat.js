// Figure: what was sent, answered, waiting and lost over time, as rpcstat of the 2001 study
// printed it; captures side by side, all on the time axis of the calls above.

import { column } from '../data.js';
import { bands, TIME_NAME } from '../capture/time.js';
import { quantity } from '../format.js';
import { LEFT, RIGHT, stacked } from '../layout.js';
import { linear, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const PANEL_PX = 96;
const PAPER_PX = 62;
const GAP_X = 84;

export function rpcstatFigure(model, id = 'rpcstat') {
  const { captures, rpcstat } = model;
  let loaded = []; // a capture's {n, ts, values: Map(column -> Float64Array)}

  async function prepare() {
    loaded = await Promise.all(captures.map(async (capture) => {
      if (!capture.rpcstat) return null;
      const chunk = await model.chunks.load(capture.rpcstat.chunk);
      const { n, t0, dt, columns } = chunk.header;
      return {
        n, dt, ts: Float64Array.from({ length: n }, (_, i) => t0 + (i + 0.5) * dt),
        values: new Map(Object.entries(columns).map(([key, spec]) => [key, column(chunk, spec)])),
      };
    }));
  }

  const seriesOf = (panel, c) => panel.series.flatMap((series) => {
    const values = loaded[c]?.values.get(series.column);
    return values ? [{ ...series, values, paint: seriesLook(series.look) }] : [];
  });

  // The range of what is in view, one for all captures: a burst elsewhere flattens nothing.
  function range(panel, viewport) {
    if (!viewport.zoomed) return panel.domain;
    let top = 0;
    captures.forEach((_, c) => {
      for (const s of seriesOf(panel, c)) {
        for (const [, v] of visible(loaded[c].ts, s.values, viewport.x)) {
          top = Math.max(top, v ?? 0);
        }
      }
    });
    return [0, top * 1.05 || panel.domain[1]];
  }

  function panelAt(panel, c, place, viewport, domain) {
    const capture = captures[c];
    const series = seriesOf(panel, c);
    const ts = loaded[c]?.ts ?? new Float64Array(0);
    return {
      rect: place.rect, titleRise: 20,
      title: captures.length > 1 ? `${capture.label}: ${panel.title}` : panel.title,
      marks: series.map((s) => ({
        text: s.label, colour: s.paint.colour, dashed: s.dashed === true,
      })),
      layers: [
        ...bands(capture, viewport.x),
        ...series.map((s) => ({
          kind: 'line', points: visible(ts, s.values, viewport.x), colour: s.paint.colour,
          dash: s.dashed ? [4, 3] : 'solid', width: 1.3, step: panel.counts ? 'middle' : false,
        })),
      ],
      x: {
        domain: viewport.x, labels: place.last, name: place.last ? TIME_NAME : '',
        ticks: ticks(linear, viewport.x, 6, 's'),
      },
      y: { domain, ticks: ticks(linear, domain, 3, panel.unit) },
      hover: ts.length && {
        xs: ts, lines: (k) => [[quantity(ts[k], 's', 5), panel.title],
          ...series.map((s) => [quantity(s.values[k], panel.unit), s.label])],
      },
    };
  }

  // What is in view, with a neighbour to either side; gaps stay gaps.
  function visible(ts, values, [a, b]) {
    const out = [];
    for (let i = 0; i < ts.length; i += 1) {
      if ((ts[i + 1] ?? ts[i]) < a || (ts[i - 1] ?? ts[i]) > b) continue;
      out.push([ts[i], Number.isNaN(values[i]) ? null : values[i]]);
    }
    return out;
  }

  function scene(width, viewport, _hidden, paper = false) {
    const across = captures.length;
    const w = (width - LEFT - RIGHT - GAP_X * (across - 1)) / across;
    const heights = rpcstat.panels.map(() => (paper ? PAPER_PX : PANEL_PX));
    const counts = { total: 0, inView: 0, what: 'bins of time' };
    const domains = rpcstat.panels.map((panel) => range(panel, viewport));
    let height = 0;
    const panels = captures.flatMap((_, c) => {
      const made = stacked(heights, LEFT + c * (w + GAP_X), w, { gap: 36, top: 28 });
      height = made.height;
      counts.total += loaded[c]?.n ?? 0;
      loaded[c]?.ts.forEach((t) => {
        if (t >= viewport.x[0] && t <= viewport.x[1]) counts.inView += 1;
      });
      return rpcstat.panels.map(
        (panel, k) => panelAt(panel, c, made.places[k], viewport, domains[k]));
    });
    if (!viewport.zoomed) counts.inView = counts.total;
    return { width, height, panels, counts, legend: [], legendExtra: model.bandLegend() };
  }

  function table() {
    const rows = captures.flatMap((capture, c) => rpcstat.panels.flatMap((panel) =>
      seriesOf(panel, c).map((s) => {
        let [sum, n, most, at] = [0, 0, -Infinity, NaN];
        s.values.forEach((v, i) => {
          if (Number.isNaN(v)) return;
          sum += v;
          n += 1;
          if (v > most) { most = v; at = loaded[c].ts[i]; }
        });
        const shown = (v) => (n ? quantity(v, panel.unit) : '–');
        return [...(captures.length > 1 ? [capture.label] : []), panel.title, s.label,
          shown(sum / n), shown(most), n ? at : null];
      })));
    return {
      columns: [...(captures.length > 1 ? [{ label: 'capture' }] : []), { label: 'source' },
        { label: 'quantity' }, { label: 'mean of the bins' }, { label: 'most in a bin' },
        { label: 'when', numeric: true, show: (v) => quantity(v, 's', 5) }],
      rows,
    };
  }

  return {
    id, title: 'Load, queue and losses over time', renderer: 'canvas', axes: 'x',
    link: model.link, least: 1e-9, prepare, scene, table,
    domain: () => ({ x: model.time.domain, y: [0, 1] }),
    caption: () => {
      const bins = captures.flatMap((capture, c) => (loaded[c]
        ? [`${captures.length > 1 ? `${capture.label}: ` : ''}${quantity(loaded[c].dt, 's')}`]
        : []));
      return `Counts in bins of ${bins.join(', ')}, exact; a call counts where it was first sent, `
        + 'a reply where its first byte came. Calls waiting: sent and not yet answered. '
        + `Bytes in flight stand in for the congestion window. ${rpcstat.note}`;
    },
  };
}
