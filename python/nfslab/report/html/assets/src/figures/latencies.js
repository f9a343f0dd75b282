// Figure: how latencies are spread, one panel an operation, one line a capture. Log scale of
// latency; the height is the share of the operation's calls per sixteenth of an octave or
// wider part, so that operations of unlike frequency compare.

import { count, quantity, share } from '../format.js';
import { facets } from '../layout.js';
import { linear, log, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const HEIGHT = 120;

export function latenciesFigure(model, id = 'latencies') {
  const { captures, latencies } = model;

  function scene(width, viewport, hidden, paper = false) {
    const { places, height } = facets(latencies.panels.length, width,
      { height: paper ? 90 : HEIGHT, most: 3 });
    const counts = { total: 0, inView: 0, what: 'answered calls' };
    const panels = latencies.panels.map((panel, i) => {
      const { rect, first, last } = places[i];
      const hoverAt = [];
      const layers = panel.lines.filter((line) => !hidden.has(String(line.capture)))
        .map((line) => {
          counts.total += line.calls;
          line.parts.forEach(([from, below, n]) => {
            const middle = (from + below) / 2;
            if (middle >= viewport.x[0] && middle <= viewport.x[1]) counts.inView += n;
            hoverAt.push({ from, below, n, line });
          });
          return {
            kind: 'line', points: outline(line), width: 1.5,
            colour: seriesLook(line.capture).colour, dash: seriesLook(line.capture).dash,
          };
        });
      return {
        rect, title: panel.name, titleRise: 20, layers,
        x: {
          domain: viewport.x, labels: last, name: last && first ? 'latency' : '', nameGap: 28,
          ticks: ticks(log, viewport.x, Math.max(3, Math.floor(rect.w / 75)), 's'),
        },
        y: {
          domain: latencies.domain, labels: first,
          ticks: ticks(linear, latencies.domain.map((v) => v * 100), 3, '').map((t) => (
            { ...t, at: t.value / 100, label: `${t.label} %` })),
        },
        hover: {
          at: (x) => {
            const hits = hoverAt.filter((part) => x >= part.from && x < part.below);
            if (!hits.length) return null;
            const { from, below } = hits[0];
            return [[`${quantity(10 ** from, 's')} to ${quantity(10 ** below, 's')}`,
              panel.name], ...hits.map(({ n, line }) => [count(n),
              `calls, ${share(n / line.calls)}${captures.length > 1
                ? ` · ${captures[line.capture].label}` : ''}`])];
          },
        },
      };
    });
    return {
      width, height, panels, counts,
      legend: captures.length > 1 ? captures.map((capture, c) => ({
        key: String(c), look: { ...seriesLook(c), shape: null }, label: capture.label,
      })) : [],
    };
  }

  // Steps: a part's share of the calls over its width.
  function outline({ parts, calls }) {
    const points = [];
    let end = null;
    for (const [from, below, n] of parts) {
      if (end === null || from > end + 1e-9) {
        if (end !== null) points.push([end, 0]);
        points.push([from, 0]);
      }
      points.push([from, n / calls], [below, n / calls]);
      end = below;
    }
    if (end !== null) points.push([end, 0]);
    return points;
  }

  return {
    id, title: 'Latencies of each operation', renderer: 'svg', axes: 'x', scene,
    domain: () => ({ x: latencies.x_domain, y: latencies.domain }),
    caption: () => 'Share of an operation\'s answered calls by latency, in parts of '
      + '3 to 6 % of the latency. All panels have the same scales.',
    table: () => ({
      columns: [...(captures.length > 1 ? [{ label: 'capture' }] : []), { label: 'operation' },
        { label: 'answered calls', numeric: true, show: count },
        ...latencies.quantiles.map((name) => ({
          label: name, numeric: true, show: (v) => quantity(v, 'ns'),
        }))],
      rows: latencies.panels.flatMap((panel) => panel.lines.map((line) => [
        ...(captures.length > 1 ? [captures[line.capture].label] : []), panel.name, line.calls,
        ...line.quantiles])),
    }),
  };
}
