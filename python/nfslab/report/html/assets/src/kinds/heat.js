// Kind "heat": counts in cells. The colour is the logarithm of the count, so that one shows.

import { axisOption, axisTitle, domainOf, placed, scaleOf, shown } from '../axes.js';
import { count } from '../format.js';
import { colour } from '../theme.js';
import { tipLines } from '../tip.js';

const HEIGHT = 240;
const LEFT = 96;

export function heat(drawing, { width, switched, view }) {
  const { x: xAxis, y: yAxis, x_edges: xe, y_edges: ye, cells } = drawing;
  const scales = [scaleOf(xAxis, switched), scaleOf(yAxis, switched)];
  const [px, py] = [placed(xe, scales[0]), placed(ye, scales[1])];
  const domains = [domainOf(edged(xAxis, px), [px]), domainOf(edged(yAxis, py), [py])];
  const wide = xe.length - 1;
  const data = [];
  let most = 0;
  let total = 0;
  cells.forEach((n, at) => {
    if (!n) return;
    data.push([at % wide, Math.floor(at / wide), n, Math.log1p(n)]);
    most = Math.max(most, n);
    total += n;
  });
  const top = drawing.most ?? Math.max(1, most);
  return {
    option: {
      grid: [{ left: LEFT, top: 44, width: width - LEFT - 20, height: HEIGHT }],
      xAxis: [
        axisOption(xAxis, {
          domain: domains[0],
          scale: scales[0],
          view: () => view('x', 0) ?? domains[0],
          nameGap: 28,
          splitNumber: Math.max(2, Math.floor((width - LEFT) / 90)),
        }),
      ],
      yAxis: [
        axisOption(yAxis, {
          domain: domains[1],
          scale: scales[1],
          view: () => view('y', 0) ?? domains[1],
          nameGap: 70,
        }),
      ],
      visualMap: [
        {
          type: 'continuous',
          min: 0,
          max: Math.log1p(top),
          dimension: 3,
          orient: 'horizontal',
          left: LEFT - 8,
          top: 0,
          itemWidth: 12,
          itemHeight: 150,
          calculable: false,
          hoverLink: false,
          text: [`${count(top)} ${drawing.what}`, '1'],
          textStyle: { color: colour('muted') },
          inRange: {
            color: colour('density')
              .split(',')
              .map((c) => c.trim()),
          },
        },
      ],
      series: [
        {
          type: 'custom',
          name: drawing.what,
          data,
          animation: false,
          clip: true,
          encode: { x: 0, y: 1 },
          renderItem: (_, api) => {
            const [i, j] = [api.value(0), api.value(1)];
            const [x1, y1] = api.coord([px[i], py[j]]);
            const [x2, y2] = api.coord([px[i + 1], py[j + 1]]);
            return {
              type: 'rect',
              style: { fill: api.visual('color') },
              shape: {
                x: x1,
                y: y2,
                width: Math.max(x2 - x1, 0.6),
                height: Math.max(y1 - y2, 0.6),
              },
            };
          },
        },
      ],
      tooltip: {
        trigger: 'item',
        formatter: ({ data: item }) =>
          item
            ? tipLines([
                [count(item[2]), `${drawing.what} in this cell`],
                ['', cell(xAxis, xe, item[0], 4)],
                ['', cell(yAxis, ye, item[1], 3)],
              ])
            : '',
      },
    },
    height: HEIGHT + 44 + 46,
    zoomY: true,
    states: [
      {
        title: '',
        x: domains[0],
        y: domains[1],
        total,
        series: [{ label: drawing.what, points: data.length }],
      },
    ],
    table: () => ({
      columns: [
        { label: `${axisTitle(xAxis)} from`, numeric: true },
        { label: `${axisTitle(yAxis)} from`, numeric: true },
        { label: 'to', numeric: true },
        { label: drawing.what, numeric: true },
      ],
      rows: () =>
        data.map(([i, j, n]) => [
          { value: xe[i], text: shown(xAxis, xe[i], 4) },
          { value: ye[j], text: shown(yAxis, ye[j]) },
          { value: ye[j + 1], text: shown(yAxis, ye[j + 1]) },
          { value: n, text: count(n) },
        ]),
      n: data.length,
    }),
  };
}

const cell = (axis, edges, i, digits) =>
  `${axisTitle(axis)} ${shown(axis, edges[i], digits)} to ${shown(axis, edges[i + 1], digits)}`;

// Without ends of its own an axis ends where the cells do.
const edged = (axis, edges) => ({
  ...axis,
  low: axis.low ?? edges[0],
  high: axis.high ?? edges.at(-1),
});
