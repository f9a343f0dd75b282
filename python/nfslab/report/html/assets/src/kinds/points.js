// Kind "points": clouds of up to a million points over common axes.

import { axisTitle, placed, scaleOf, shown, worded } from '../axes.js';
import { Chart, segment } from '../chart.js';
import { count, quantity } from '../format.js';
import { seriesLook } from '../theme.js';

const HEIGHT = 320;
const ROW_PX = 26;
const LARGE_FROM = 4000; // points of a cloud that are painted without an object each
const REACH_MOST = 60_000; // points whose length is drawn
const CROSS = 'path://M0 1L1 0L5 4L9 0L10 1L6 5L10 9L9 10L5 6L1 10L0 9L4 5Z';

const said = ([values, unit], i) =>
  typeof values[i] === 'string' ? values[i] : worded(values[i], unit);

function flat(x, y) {
  const out = new Float64Array(2 * x.length);
  for (let i = 0; i < x.length; i += 1) out.set([x[i], y[i]], 2 * i);
  return out;
}

/** How far each point reaches along x. */
const reach = ({ label, length }, x, y, paint) => ({
  type: 'custom',
  name: label,
  silent: true,
  z: 3,
  itemStyle: { color: paint },
  progressive: 4000,
  data: Array.from(x, (v, i) => [v, y[i], v + length[i]]),
  encode: { x: [0, 2], y: 1 },
  renderItem: (_, api) => {
    const [x1, at] = api.coord([api.value(0), api.value(1)]);
    const [x2] = api.coord([api.value(2), api.value(1)]);
    return segment(x1, at, x2, at, { stroke: paint, opacity: 0.7 });
  },
});

export function points(drawing, width, switched) {
  const { x: xAxis, y: yAxis, clouds } = drawing;
  const chart = new Chart(width, switched);
  const [xScale, yScale] = [scaleOf(xAxis, switched), scaleOf(yAxis, switched)];
  const at = clouds.map((cloud) => [placed(cloud.x, xScale), placed(cloud.y, yScale)]);
  const rows = yScale === 'ordinal' ? yAxis.levels.length : 0;
  const left = rows ? Math.min(260, Math.max(90, width * 0.22)) : 96;
  const height = rows ? Math.max(HEIGHT / 2, rows * ROW_PX) : HEIGHT;
  chart.panel(
    { left, top: 32, width: width - left - 20, height },
    [xAxis, { values: at.map(([x]) => x), nameGap: 28 }],
    [
      yAxis,
      { values: at.map(([, y]) => y), nameGap: rows ? left - 16 : 70, room: rows && left - 34 },
    ],
  );
  clouds.forEach((cloud, k) => {
    const paint = seriesLook(k, cloud.colour).colour;
    const [x, y] = at[k];
    const large = x.length > LARGE_FROM;
    const series = {
      type: 'scatter',
      name: cloud.label,
      data: flat(x, y),
      dimensions: ['x', 'y'],
      large,
      largeThreshold: LARGE_FROM,
      progressive: large ? 50_000 : 0,
      z: 5,
      symbol: cloud.shape === 'cross' ? CROSS : (cloud.shape ?? 'circle'),
      symbolSize: cloud.size ?? 3,
      itemStyle: { color: paint, opacity: large ? 0.5 : 0.8 },
    };
    chart.add(series, (i, shade) => [
      [shown(yAxis, cloud.y[i]), cloud.label, shade],
      [shown(xAxis, cloud.x[i], 9), axisTitle(xAxis)],
      ...(cloud.length ? [[quantity(cloud.length[i], xAxis.unit), 'long']] : []),
      ...Object.entries(cloud.extra ?? {}).map(([name, found]) => [said(found, i), name]),
    ]);
    chart.drew(cloud.label, x.length);
    chart.heavy ||= large;
    if (cloud.length && x.length <= REACH_MOST) chart.add(reach(cloud, x, y, paint));
  });
  chart.mark(drawing);
  chart.legend(clouds.map((cloud) => cloud.label));
  const total = clouds.reduce((n, cloud) => n + cloud.x.length, 0);
  if (drawing.drawn_of > total) {
    chart.remark = `${count(total)} of ${count(drawing.drawn_of)} points are drawn.`;
  }
  function* all() {
    for (const cloud of clouds) for (let i = 0; i < cloud.x.length; i += 1) yield { cloud, i };
  }
  const names = [...new Set(clouds.flatMap((cloud) => Object.keys(cloud.extra ?? {})))];
  return chart.table(
    all,
    [
      ['of', ({ cloud }) => cloud.label],
      [axisTitle(xAxis), ({ cloud, i }) => cloud.x[i], (v) => shown(xAxis, v, 9)],
      [axisTitle(yAxis), ({ cloud, i }) => cloud.y[i], (v) => shown(yAxis, v)],
      ...names.map((name) => [
        name,
        ({ cloud, i }) => (cloud.extra?.[name] ? said(cloud.extra[name], i) : ''),
      ]),
    ],
    total,
  );
}
