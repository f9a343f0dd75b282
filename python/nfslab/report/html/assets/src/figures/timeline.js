// Figure: what was done per second over the time of a run: all runs of one point on top of
// each other. Counts per bin are exact; the bin's width is said in the caption.

import { button, checkbox, select } from '../dom.js';
import { column } from '../data.js';
import { count, quantity } from '../format.js';
import {
  TIME_NAME, firstPoint, loadPoint, pointOptions, timeDomain, timeLine, times,
} from '../frames.js';
import { LEFT, RIGHT } from '../layout.js';
import { linear, ticks } from '../scales.js';
import { seriesLook } from '../theme.js';

const HEIGHT = 290;
const MOST_LEGEND = 24;
const MOST_TOLD = 12; // runs in a tooltip

export function timelineFigure(model) {
  const state = { point: firstPoint(model), rate: model.time.rates[0].key, shared: false };
  let loaded = null;
  const rate = () => model.time.rates.find((r) => r.key === state.rate);

  const amount = (v) => (rate().unit === '1/s' ? count(v) : quantity(v, 'B'));

  async function prepare() {
    loaded = await loadPoint(model, state.point);
  }

  const most = () => (state.shared ? rate().most
    : loaded?.chunk.header.rate_most[state.rate] ?? rate().most);

  function lines() {
    const out = [];
    for (const run of model.runsOf[state.point]) {
      const frame = loaded?.runs.get(run)?.rates?.[state.rate];
      if (!frame) continue;
      const amounts = column(loaded.chunk, frame.amount);
      const ts = times(loaded.chunk, frame);
      out.push({ run, frame, ts, amounts, values: amounts.map((v) => v / frame.dt) });
    }
    return out;
  }

  function move(fig, step) {
    const options = pointOptions(model).map(([key]) => key);
    const at = options.indexOf(String(state.point));
    state.point = Number(options[(at + step + options.length) % options.length]);
    fig.controls.replaceChildren(...controls(fig));
    fig.hidden.clear();
    fig.draw();
  }

  function controls(fig) {
    const options = pointOptions(model);
    return [
      ...(model.time.rates.length > 1 ? [select('Quantity',
        model.time.rates.map((r) => [r.key, r.label]), state.rate,
        (value) => { state.rate = value; fig.draw(); })] : []),
      select('Point', options, String(state.point), (value) => {
        state.point = Number(value);
        fig.hidden.clear();
        fig.draw();
      }),
      ...(options.length > 1 ? [
        checkbox('one scale for all points', state.shared, (value) => {
          state.shared = value;
          fig.draw();
        }),
        button('Previous point', () => move(fig, -1)), button('Next point', () => move(fig, 1)),
      ] : []),
    ];
  }

  function scene(width, viewport, hidden) {
    const rect = { x: LEFT, y: 16, w: width - LEFT - RIGHT, h: HEIGHT };
    const all = lines();
    const shown = all.filter(({ run }) => !hidden.has(String(run)));
    const counts = { total: 0, inView: 0, what: rate().what, unit: rate().unit };
    const layers = [];
    const warm = [];
    for (const { run, frame, ts, amounts, values } of shown) {
      const look = seriesLook(model.runs.block[run]);
      layers.push(...timeLine(
        Array.from(ts.subarray(0, frame.whole), (t, i) => [t, values[i]]),
        { colour: look.colour, dash: look.dash, width: 1.3, opacity: 0.9 },
      ));
      counts.total += frame.total;
      ts.forEach((t, i) => {
        if (t >= viewport.x[0] && t <= viewport.x[1]) counts.inView += amounts[i];
      });
      if (model.runs.warm_up_s[run] > 0) warm.push({ run, at: model.runs.warm_up_s[run] });
    }
    for (const { run, at } of warm) {
      layers.push({
        kind: 'rules', colour: seriesLook(model.runs.block[run]).colour, width: 1.4,
        items: [{ at, label: warm.length === 1 || at === Math.max(...warm.map((w) => w.at))
          ? 'steady from here' : '' }],
      });
    }
    const longest = shown.reduce((a, b) => (b.ts.length > (a?.ts.length ?? 0) ? b : a), null);
    if (viewport.x[0] === viewport.full.x[0] && viewport.x[1] === viewport.full.x[1]) {
      counts.inView = counts.total;
    }
    return {
      width, height: HEIGHT + 68, counts,
      dt: all[0]?.frame.dt, empty: !all.length,
      short: all.filter(({ frame }) => !frame.whole).length,
      legend: all.length > MOST_LEGEND ? [] : all.map(({ run }) => ({
        key: String(run), look: { ...seriesLook(model.runs.block[run]), shape: null },
        label: model.runLabel(run),
      })),
      panels: [{
        rect, layers,
        x: {
          domain: viewport.x, name: TIME_NAME, ticks: ticks(linear, viewport.x, 9, 's'),
        },
        y: {
          domain: viewport.y, name: rate().label, nameGap: 72,
          ticks: ticks(linear, viewport.y, 5, rate().unit),
        },
        hover: longest && {
          xs: longest.ts,
          lines: (i) => [
            [quantity(longest.ts[i], 's', 4), `bin of ${quantity(longest.frame.dt, 's')}`],
            ...shown.slice(0, MOST_TOLD).map((l) => [
              i < l.values.length ? quantity(l.values[i], rate().unit) : '–',
              model.runLabel(l.run)]),
          ],
        },
      }],
    };
  }

  return {
    id: 'timeline', title: 'Over the time of each run', renderer: 'canvas', axes: 'xy',
    link: 'time', prepare, controls, scene,
    domain: () => ({
      x: timeDomain(rate().span, loaded?.chunk.header.rate_span[state.rate]), y: [0, most() * 1.04],
    }),
    caption: (drawn) => (drawn.empty ? 'No series was recorded for this point.'
      : `${rate().label} of ${model.pointLabel(state.point)}, one line a run, counted exactly in `
      + `bins of ${quantity(drawn.dt, 's')} (a last bin that the end of the run cuts short is `
      + 'not drawn). Dashed: where the check of steady state found the end of a warm-up.'
      + `${drawn.short ? ` Shorter than one bin, so not drawn: ${drawn.short} runs.` : ''}`
      + `${state.shared ? ' One scale for all points.' : ' The scale is that of this point.'}`),
    table: () => {
      const all = lines();
      return {
        columns: [{ label: 'run' }, { label: 'bins', numeric: true },
          { label: rate().what, numeric: true, show: amount },
          { label: 'least in a bin', numeric: true, show: (v) => quantity(v, rate().unit) },
          { label: 'most in a bin', numeric: true, show: (v) => quantity(v, rate().unit) },
          { label: 'warm-up until', numeric: true, show: (v) => quantity(v, 's') }],
        rows: all.map(({ run, frame, values }) => [model.runLabel(run), frame.n, frame.total,
          frame.least, values.length ? Math.max(...values) : null, model.runs.warm_up_s[run]]),
        note: 'Least: of the whole bins only (the last bin is shorter).',
      };
    },
  };
}

