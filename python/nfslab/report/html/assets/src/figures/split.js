// Figure: where the time of calls goes. One bar a capture (or run) and operation, as shares of
// the calls' whole time. What the parts are and what is said of them comes with the data; of a
// capture they are what TCP's acknowledgements tell: network or server.

import { h } from '../dom.js';
import { count, quantity, share } from '../format.js';
import { linear, ticks } from '../scales.js';
import { colour } from '../theme.js';

const ROW_PX = 26;
const NARROW_PX = 560;

export function splitFigure(model, id = 'split') {
  const { split } = model;
  const n = split.rows.length;
  const words = split.words ?? { count: 'calls', whole: 'mean', part: 'mean' };

  function scene(width, viewport) {
    const left = Math.min(280, Math.max(110, width * 0.2));
    const right = width < NARROW_PX ? 76 : 150;
    const rect = { x: left, y: 26, w: width - left - right, h: Math.max(70, n * ROW_PX) };
    const parts = split.parts.map((part) => ({ ...part, paint: colour(part.colour) }));
    const layers = parts.map((part, k) => ({
      kind: 'bars', colour: part.paint,
      items: split.rows.map((row, i) => {
        const from = row.shares.slice(0, k).reduce((a, b) => a + b, 0);
        return { at: n - i, from, to: from + row.shares[k] };
      }),
    }));
    layers.push({
      kind: 'labels', colour: colour('muted'), dx: 10, items: split.rows.map((row, i) => ({
        x: viewport.x[1], y: n - i,
        text: `${width < NARROW_PX ? '' : `${words.whole} `}${quantity(row.whole_s, 's')}`,
      })),
    });
    // The title line carries the legend; one that is too long for it stands above.
    const fits = rect.w > 130 + parts.reduce((sum, p) => sum + 34 + 6.6 * p.label.length, 0);
    return {
      width, height: rect.h + 76, counts: { total: n, inView: n, what: 'bars' },
      legend: [], legendExtra: fits ? [] : [legendLine(parts)],
      panels: [{
        rect, title: 'Share of the time', titleRise: 20, layers,
        marks: fits ? parts.map((part) => (
          { text: part.label, colour: part.paint, block: true })) : [],
        x: {
          domain: viewport.x, ticks: ticks(linear, viewport.x.map((v) => v * 100), 6, '')
            .map((t) => ({ ...t, at: t.value / 100, label: `${t.label} %` })),
        },
        y: {
          domain: viewport.y, grid: false, labelWidth: left - 16,
          ticks: split.rows.map((row, i) => ({ at: n - i, label: row.label })),
        },
        hover: {
          at: (_, y) => {
            const row = split.rows[n - Math.round(y)];
            return row ? [[row.label, `${count(row.calls)} ${words.count}, ${words.whole} `
              + `${quantity(row.whole_s, 's')}`], ...row.shares.map((part, k) => [share(part, 3),
              `${split.parts[k].label}, ${words.part} ${quantity(row.means_s[k], 's')}`])] : null;
          },
        },
      }],
    };
  }

  const legendLine = (parts) => h('span', { class: 'group' }, parts.map((part) => {
    const chip = h('i', { class: 'chip' });
    chip.style.color = part.paint;
    return h('span', { class: 'entry' }, chip, part.label);
  }));

  return {
    id, title: split.title ?? 'Network or server', renderer: 'svg', axes: 'x', scene,
    domain: () => ({ x: [0, 1], y: [0.4, n + 0.6] }),
    caption: () => split.caption ?? 'From the first byte of a call to the last byte of its reply, '
      + 'seen from where the capture was taken; the network\'s part is the round trip that TCP\'s '
      + 'acknowledgements show, the server\'s is what is left. Calls sent again and connections '
      + 'without a measured round trip are left out.',
    table: () => ({
      columns: [{ label: 'what' }, { label: words.count, numeric: true, show: count },
        { label: words.whole, numeric: true, show: (v) => quantity(v, 's') },
        ...split.parts.flatMap((part) => [
          { label: `${part.label}, share`, numeric: true, show: (v) => share(v, 3) },
          { label: `${part.label}, ${words.part}`, numeric: true,
            show: (v) => quantity(v, 's') }])],
      rows: split.rows.map((row) => [row.label, row.calls, row.whole_s,
        ...row.shares.flatMap((part, k) => [part, row.means_s[k]])]),
    }),
  };
}
