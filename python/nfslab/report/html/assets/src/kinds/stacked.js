// Kind "stacked": parts of wholes by category, as shares or amounts.

import { axisOption, axisTitle, domainOf, shown } from '../axes.js';
import { percent } from '../format.js';
import { colour, seriesLook } from '../theme.js';
import { tipLines } from '../tip.js';

const ROW_PX = 30;
const LEAST_PX = 60;

const sum = (values) => values.reduce((a, b) => a + (b || 0), 0);

export function stacked(drawing, { width, view }) {
  const { parts, wholes } = drawing;
  const shares = drawing.shares ?? false;
  const amounts = { ...drawing.axis };
  const axis = shares ? { name: 'share', unit: 'share', low: 0, high: 1 } : { ...amounts, low: 0 };
  const totals = wholes.map((whole) => sum(whole.parts));
  const domain = domainOf(axis, [totals]);
  const left = Math.min(330, Math.max(110, width * 0.3));
  const tall = Math.max(LEAST_PX, wholes.length * ROW_PX);
  const look = (part, k) => (part.colour ? colour(part.colour) : seriesLook(k).colour);
  const rows = Math.ceil(sum(parts.map((p) => p.label.length * 6.5 + 40)) / width);
  const top = 8 + 24 * rows;
  return {
    option: {
      grid: [{ left, top, width: width - left - 24, height: tall }],
      xAxis: [
        axisOption(axis, {
          domain,
          scale: 'linear',
          view: () => view('x', 0) ?? domain,
          nameGap: 26,
        }),
      ],
      yAxis: [
        {
          type: 'category',
          data: wholes.map((whole) => whole.label),
          inverse: true,
          axisLine: { show: false },
          axisTick: { show: false },
          axisLabel: {
            color: colour('fg'),
            fontSize: 12,
            interval: 0,
            width: left - 14,
            overflow: 'truncate',
          },
        },
      ],
      legend: [
        {
          data: parts.map((part) => part.label),
          top: 0,
          left: 0,
          itemWidth: 14,
          itemHeight: 12,
          textStyle: { color: colour('fg'), fontSize: 11.5, lineHeight: 18 },
        },
      ],
      series: parts.map((part, k) => ({
        type: 'bar',
        name: part.label,
        stack: 'whole',
        animation: false,
        barWidth: '66%',
        itemStyle: { color: look(part, k) },
        data: wholes.map((whole, i) =>
          shares ? whole.parts[k] / (totals[i] || 1) : whole.parts[k],
        ),
      })),
      tooltip: {
        trigger: 'axis',
        axisPointer: { type: 'shadow' },
        formatter: ([{ dataIndex: i }]) =>
          tipLines([
            [shown(amounts, totals[i]), wholes[i].label],
            ...parts.map((part, k) => [
              shown(amounts, wholes[i].parts[k]),
              `${part.label} (${percent(wholes[i].parts[k] / (totals[i] || 1))})`,
              look(part, k),
            ]),
            ...(wholes[i].hint ? [['', wholes[i].hint]] : []),
          ]),
      },
    },
    height: top + tall + 46,
    zoomY: false,
    states: [
      {
        title: '',
        x: domain,
        y: [0, wholes.length],
        series: parts.map((part) => ({ label: part.label, points: wholes.length })),
      },
    ],
    table: () => ({
      columns: [
        { label: 'row' },
        ...parts.map((part) => ({ label: part.label, numeric: true })),
        { label: axisTitle(amounts) || 'whole', numeric: true },
        { label: 'remark' },
      ],
      rows: () =>
        wholes.map((whole, i) => [
          whole.label,
          ...Array.from(whole.parts, (v) => ({
            value: v,
            text: `${shown(amounts, v)} (${percent(v / (totals[i] || 1))})`,
          })),
          { value: totals[i], text: shown(amounts, totals[i]) },
          whole.hint ?? '',
        ]),
      n: wholes.length,
    }),
  };
}
