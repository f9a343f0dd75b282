// Rules, bands and levels of a panel: one empty series that carries ECharts' own marks.

import { colour } from '../theme.js';

const shade = (name, fallback) => (name ? colour(name) : colour(fallback));

export function marksOf({ rules = [], bands = [], levels = [] }, index) {
  if (!rules.length && !bands.length && !levels.length) return [];
  const text = { color: colour('muted'), fontSize: 11 };
  const lines = rules.map((rule) => ({
    [rule.axis === 'y' ? 'yAxis' : 'xAxis']: rule.at,
    label: {
      ...text,
      show: Boolean(rule.label),
      formatter: () => rule.label ?? '',
      position: 'end',
      rotate: 0,
      distance: 0,
      ...(rule.axis === 'y'
        ? { align: 'right', verticalAlign: 'bottom' }
        : { align: 'left', verticalAlign: 'top', padding: [3, 0, 0, 5] }),
    },
    lineStyle: { color: shade(rule.colour, 'muted'), type: 'dashed', width: 1.2 },
  }));
  const flats = levels.map((level) => [
    {
      coord: [level.low, level.y],
      symbol: 'none',
      label: {
        ...text,
        color: colour('fg'),
        show: Boolean(level.label),
        formatter: () => level.label ?? '',
        position: 'middle',
        distance: 2,
        backgroundColor: colour('bg'),
        padding: [0, 3],
      },
      lineStyle: { color: colour('fg'), type: 'solid', width: 2.2 },
    },
    { coord: [level.high, level.y], symbol: 'none' },
  ]);
  return [
    {
      type: 'line',
      data: [],
      xAxisIndex: index,
      yAxisIndex: index,
      silent: true,
      z: 8,
      markLine: { silent: true, symbol: 'none', animation: false, data: [...lines, ...flats] },
      markArea: {
        silent: true,
        data: bands.map((band) => [
          {
            xAxis: band.low,
            itemStyle: { color: shade(band.colour, 'warn'), opacity: 0.18 },
            label: {
              ...text,
              show: Boolean(band.label),
              formatter: () => band.label ?? '',
              position: 'insideTop',
            },
          },
          { xAxis: band.high },
        ]),
      },
    },
  ];
}
