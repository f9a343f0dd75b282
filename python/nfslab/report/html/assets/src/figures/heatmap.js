// Figure: time x latency, one panel a run of a point, drawn on a canvas of our own (a chart
// library's heat map missed columns). Colour is the logarithm of the number of operations
// in a cell, so that one single slow operation is still seen; one maximum for all panels.

import { rampLegend } from '../capture/paint.js';
import { select } from '../dom.js';
import { column } from '../data.js';
import { count, quantity } from '../format.js';
import { TIME_NAME, firstPoint, loadPoint, pointOptions, timeDomain } from '../frames.js';
import { facets } from '../layout.js';
import { linear, log, ticks } from '../scales.js';
import { ramp } from '../theme.js';

const MOST_PANELS = 12;
const HEIGHT = 180;

/** Paint the part of a grid that is in view: one canvas pixel a cell. */
function paint(grid, cells, viewport, most, colours) {
  const range = ([low, high], start, step, n) => [
    Math.max(0, Math.floor((low - start) / step + 1e-9)),
    Math.min(n, Math.ceil((high - start) / step - 1e-9)),
  ];
  const [x0, x1] = range(viewport.x, grid.t0, grid.dt, grid.nt);
  const [y0, y1] = range(viewport.y, grid.l0, grid.dl, grid.nl);
  const [wide, tall] = [Math.max(1, x1 - x0), Math.max(1, y1 - y0)];
  const source = document.createElement('canvas');
  source.width = wide;
  source.height = tall;
  const context = source.getContext('2d');
  const image = context.createImageData(wide, tall);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = 255 / Math.log(1 + most);
  for (let y = y0; y < y1; y += 1) {
    for (let x = x0; x < x1; x += 1) {
      const n = cells[y * grid.nt + x];
      if (n) pixels[(y1 - 1 - y) * wide + x - x0] = colours[Math.floor(Math.log(1 + n) * scale)];
    }
  }
  context.putImageData(image, 0, 0);
  const time = (x) => grid.t0 + x * grid.dt;
  const latency = (y) => grid.l0 + y * grid.dl;
  return { source, box: [time(x0), time(x1), latency(y0), latency(y1)] };
}

/** A canvas of the panel's size: the cells, sharp, cut at the view's edges. */
function canvasOf(rect, painted, viewport) {
  const ratio = 2;
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(rect.w * ratio);
  canvas.height = Math.round(rect.h * ratio);
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = false;
  const [a, b, c, d] = painted.box;
  const kx = canvas.width / (viewport.x[1] - viewport.x[0]);
  const ky = canvas.height / (viewport.y[1] - viewport.y[0]);
  context.drawImage(painted.source, (a - viewport.x[0]) * kx, (viewport.y[1] - d) * ky,
    (b - a) * kx, (d - c) * ky);
  return canvas;
}

export function heatmapFigure(model) {
  const { latency } = model;
  const state = { point: firstPoint(model), kind: latency.heat_kinds[0]?.key };
  let loaded = null;

  function maps() {
    return model.runsOf[state.point].flatMap((run) => {
      const grid = loaded?.runs.get(run)?.heat?.[state.kind];
      return grid ? [{ run, grid, cells: column(loaded.chunk, grid.cells) }] : [];
    });
  }

  // Operations of the cells that are at least partly in view.
  function tally(grid, cells, viewport) {
    let n = 0;
    for (let y = 0; y < grid.nl; y += 1) {
      const low = grid.l0 + y * grid.dl;
      if (low + grid.dl <= viewport.y[0] || low >= viewport.y[1]) continue;
      for (let x = 0; x < grid.nt; x += 1) {
        const t = grid.t0 + x * grid.dt;
        if (t + grid.dt > viewport.x[0] && t <= viewport.x[1]) n += cells[y * grid.nt + x];
      }
    }
    return n;
  }

  function scene(width, viewport) {
    const all = maps();
    const shown = all.slice(0, MOST_PANELS);
    const { places, height } = facets(Math.max(1, shown.length), width,
      { height: HEIGHT, most: 3 });
    const colours = ramp('density');
    const most = Math.max(1, latency.heat_most[state.kind] ?? 1);
    const counts = { total: 0, inView: 0, what: 'operations' };
    const panels = shown.map(({ run, grid, cells }, i) => {
      const { rect, first, last } = places[i];
      const n = tally(grid, cells, viewport);
      counts.total += grid.total;
      counts.inView += n;
      return {
        rect, layers: [],
        title: `${model.runLabel(run)} · ${count(n)} operations`,
        image: () => canvasOf(rect, paint(grid, cells, viewport, most, colours), viewport),
        x: {
          domain: viewport.x, name: last && first ? TIME_NAME : '', nameGap: 26,
          ticks: ticks(linear, viewport.x, Math.max(3, Math.floor(rect.w / 80)), 's'),
        },
        y: {
          domain: viewport.y, name: first ? 'latency' : '', labels: first, nameGap: 72,
          ticks: ticks(log, viewport.y, 5, 's'),
        },
        hover: {
          at: (x, y) => {
            const tx = Math.floor((x - grid.t0) / grid.dt);
            const ly = Math.floor((y - grid.l0) / grid.dl);
            const inside = tx >= 0 && tx < grid.nt && ly >= 0 && ly < grid.nl;
            const value = inside ? cells[ly * grid.nt + tx] : 0;
            return [[count(value), 'operations in this cell'],
              ['', `${quantity(grid.t0 + tx * grid.dt, 's', 4)} to `
                + `${quantity(grid.t0 + (tx + 1) * grid.dt, 's', 4)}`],
              ['', `${quantity(10 ** (grid.l0 + ly * grid.dl), 's')} to `
                + `${quantity(10 ** (grid.l0 + (ly + 1) * grid.dl), 's')}`]];
          },
        },
      };
    });
    return {
      width, height, panels, counts, legend: [], legendExtra: [rampLegend('operations', most)],
      grid: all[0]?.grid,
      left: all.length - shown.length,
    };
  }

  function controls(fig) {
    return [
      ...(latency.heat_kinds.length > 1 ? [select('Operation',
        latency.heat_kinds.map((k) => [k.key, k.label]), state.kind,
        (value) => { state.kind = value; fig.draw(); })] : []),
      select('Point', pointOptions(model), String(state.point),
        (value) => { state.point = Number(value); fig.draw(); }),
    ];
  }

  return {
    id: 'heatmap', title: 'Latency over time', renderer: 'svg', axes: 'xy', link: 'time',
    controls, scene, prepare: async () => { loaded = await loadPoint(model, state.point); },
    domain: () => ({
      x: timeDomain(model.time.domain, loaded?.chunk.header.rate_span[state.kind]),
      y: latency.domain,
    }),
    caption: (drawn) => (drawn.grid
      ? `Operations of ${model.pointLabel(state.point)} by the time they ended and their latency, `
        + `one panel a run. A cell: ${quantity(drawn.grid.dt, 's')} × `
        + `1/${Math.round(1 / drawn.grid.dl)} decade; `
        + 'all operations are counted, the logarithm of the count is the colour, with one '
        + `maximum for all runs of the experiment.${drawn.left
          ? ` The first ${MOST_PANELS} runs; ${drawn.left} more have none drawn here.` : ''}`
      : 'No latencies were recorded for this point.'),
    table: () => ({
      columns: [{ label: 'run' }, { label: 'operations', numeric: true, show: count },
        { label: 'outside the shown latencies', numeric: true, show: count },
        { label: 'most in a cell', numeric: true, show: count }],
      rows: maps().map(({ run, grid, cells }) => [model.runLabel(run), grid.total, grid.outside,
        cells.reduce((a, b) => Math.max(a, b), 0)]),
    }),
  };
}
