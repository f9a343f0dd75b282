// Kind "points": clouds of up to a million points over common axes.

import { axisOption, axisTitle, domainOf, placed, scaleOf, shown, worded } from '../axes.js';
import { count, quantity } from '../format.js';
import { colour, seriesLook } from '../theme.js';
import { tipLines } from '../tip.js';
import { marksOf } from './marks.js';

const HEIGHT = 320;
const ROW_PX = 26;
const LARGE_FROM = 4000; // points of a cloud that are painted without an object each
const REACH_MOST = 60_000; // points whose length is drawn
const CROSS = 'path://M0 1L1 0L5 4L9 0L10 1L6 5L10 9L9 10L5 6L1 10L0 9L4 5Z';

const said = ([values, unit], i) =>
  typeof values[i] === 'string' ? values[i] : worded(values[i], unit);

const total = (clouds) => clouds.reduce((n, cloud) => n + cloud.x.length, 0);

function flat(x, y) {
  const out = new Float64Array(2 * x.length);
  for (let i = 0; i < x.length; i += 1) {
    out[2 * i] = x[i];
    out[2 * i + 1] = y[i];
  }
  return out;
}

function reach(cloud, x, y, paint) {
  return {
    type: 'custom',
    name: cloud.label,
    silent: true,
    z: 3,
    clip: true,
    animation: false,
    itemStyle: { color: paint },
    progressive: 4000,
    data: Array.from(x, (v, i) => [v, y[i], v + cloud.length[i]]),
    encode: { x: [0, 2], y: 1 },
    renderItem: (_, api) => {
      const [x1, at] = api.coord([api.value(0), api.value(1)]);
      const [x2] = api.coord([api.value(2), api.value(1)]);
      return {
        type: 'line',
        shape: { x1, y1: at, x2, y2: at },
        style: { stroke: paint, lineWidth: 2, opacity: 0.7 },
      };
    },
  };
}

export function points(drawing, { width, switched, view }) {
  const { x: xAxis, y: yAxis, clouds } = drawing;
  const [xScale, yScale] = [scaleOf(xAxis, switched), scaleOf(yAxis, switched)];
  const at = clouds.map((cloud) => [placed(cloud.x, xScale), placed(cloud.y, yScale)]);
  const xDomain = domainOf(
    xAxis,
    at.map(([x]) => x),
    switched,
  );
  const yDomain = domainOf(
    yAxis,
    at.map(([, y]) => y),
    switched,
  );
  const rows = yScale === 'ordinal' ? yAxis.levels.length : 0;
  const tall = rows ? Math.max(HEIGHT / 2, rows * ROW_PX) : HEIGHT;
  const left = rows ? Math.min(260, Math.max(90, width * 0.22)) : 96;
  const series = [];
  const told = [];
  clouds.forEach((cloud, k) => {
    const paint = cloud.colour ? colour(cloud.colour) : seriesLook(k).colour;
    const [x, y] = at[k];
    const large = x.length > LARGE_FROM;
    series.push({
      type: 'scatter',
      name: cloud.label,
      data: flat(x, y),
      dimensions: ['x', 'y'],
      large,
      animation: false,
      largeThreshold: LARGE_FROM,
      progressive: large ? 50_000 : 0,
      z: 5,
      symbol: cloud.shape === 'cross' ? CROSS : (cloud.shape ?? 'circle'),
      symbolSize: cloud.size ?? 3,
      itemStyle: { color: paint, opacity: large ? 0.5 : 0.8 },
    });
    told.push(cloud);
    if (cloud.length && x.length <= REACH_MOST) {
      series.push(reach(cloud, x, y, paint));
      told.push(null);
    }
  });
  series.push(...marksOf(drawing, 0));
  const shownOf = drawing.drawn_of;
  return {
    option: {
      grid: [{ left, top: 32, width: width - left - 20, height: tall }],
      xAxis: [
        axisOption(xAxis, {
          domain: xDomain,
          scale: xScale,
          view: () => view('x', 0) ?? xDomain,
          nameGap: 28,
          splitNumber: Math.max(2, Math.floor((width - left) / 90)),
        }),
      ],
      yAxis: [
        axisOption(yAxis, {
          domain: yDomain,
          scale: yScale,
          view: () => view('y', 0) ?? yDomain,
          nameGap: rows ? left - 16 : 70,
          axisLabel: {
            color: colour('muted'),
            fontSize: 11,
            ...(rows
              ? { width: left - 34, overflow: 'truncate', interval: 0 }
              : { hideOverlap: true }),
          },
        }),
      ],
      legend: [
        {
          type: 'scroll',
          data: clouds.map((cloud) => cloud.label),
          top: 0,
          left: 0,
          itemHeight: 12,
          textStyle: { color: colour('fg'), fontSize: 11.5, lineHeight: 18 },
          pageTextStyle: { color: colour('muted') },
        },
      ],
      series,
      tooltip: {
        trigger: 'item',
        formatter: ({ seriesIndex, dataIndex: i, color }) => {
          const cloud = told[seriesIndex];
          return cloud
            ? tipLines([
                [shown(yAxis, cloud.y[i]), cloud.label, color],
                [shown(xAxis, cloud.x[i], 9), axisTitle(xAxis)],
                ...(cloud.length ? [[quantity(cloud.length[i], xAxis.unit), 'long']] : []),
                ...Object.entries(cloud.extra ?? {}).map(([name, found]) => [said(found, i), name]),
              ])
            : '';
        },
      },
    },
    height: tall + 32 + 46,
    zoomY: true,
    heavy: clouds.some((cloud) => cloud.x.length > LARGE_FROM),
    remark:
      shownOf > total(clouds)
        ? `${count(total(clouds))} of ${count(shownOf)} points are drawn.`
        : '',
    states: [
      {
        title: '',
        x: xDomain,
        y: yDomain,
        series: clouds.map((cloud) => ({ label: cloud.label, points: cloud.x.length })),
      },
    ],
    table: () => table(drawing),
  };
}

function table({ x: xAxis, y: yAxis, clouds }) {
  const names = [...new Set(clouds.flatMap((cloud) => Object.keys(cloud.extra ?? {})))];
  function* rows() {
    for (const cloud of clouds) {
      for (let i = 0; i < cloud.x.length; i += 1) {
        yield [
          cloud.label,
          { value: cloud.x[i], text: shown(xAxis, cloud.x[i], 9) },
          { value: cloud.y[i], text: shown(yAxis, cloud.y[i]) },
          ...names.map((name) => (cloud.extra?.[name] ? said(cloud.extra[name], i) : '')),
        ];
      }
    }
  }
  return {
    columns: [
      { label: 'of' },
      { label: axisTitle(xAxis), numeric: true },
      { label: axisTitle(yAxis), numeric: true },
      ...names.map((label) => ({ label })),
    ],
    rows,
    n: total(clouds),
  };
}
