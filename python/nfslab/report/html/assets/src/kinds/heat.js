// Kind "heat": counts in cells. The colour is the logarithm of the count, so that one shows.

import { axisTitle, placed, scaleOf, shown } from '../axes.js';
import { box, Chart } from '../chart.js';
import { count } from '../format.js';
import { colour } from '../theme.js';

const HEIGHT = 240;
const LEFT = 96;

// Without ends of its own an axis ends where the cells do.
const edged = (axis, edges) => ({
  ...axis,
  low: axis.low ?? edges[0],
  high: axis.high ?? edges.at(-1),
});

export function heat(drawing, width, switched) {
  const { x_edges: xe, y_edges: ye, cells, what } = drawing;
  const chart = new Chart(width, switched);
  const [xAxis, yAxis] = [edged(drawing.x, xe), edged(drawing.y, ye)];
  const px = placed(xe, scaleOf(xAxis, switched));
  const py = placed(ye, scaleOf(yAxis, switched));
  const wide = xe.length - 1;
  const data = [];
  let [most, total] = [1, 0];
  cells.forEach((n, at) => {
    if (!n) return;
    data.push([at % wide, Math.floor(at / wide), n, Math.log1p(n)]);
    most = Math.max(most, n);
    total += n;
  });
  most = drawing.most ?? most;
  chart.panel(
    { left: LEFT, top: 44, width: width - LEFT - 20, height: HEIGHT },
    [xAxis, { values: [px], nameGap: 28 }],
    [yAxis, { values: [py], nameGap: 70 }],
  );
  chart.option.visualMap = {
    type: 'continuous',
    min: 0,
    max: Math.log1p(most),
    dimension: 3,
    orient: 'horizontal',
    left: LEFT - 8,
    top: 0,
    itemWidth: 12,
    itemHeight: 150,
    hoverLink: false,
    text: [`${count(most)} ${what}`, '1'],
    textStyle: { color: colour('muted') },
    inRange: { color: colour('density').split(/\s*,\s*/) },
  };
  const range = (axis, edges, i, digits) =>
    `${axisTitle(axis)} ${shown(axis, edges[i], digits)} to ${shown(axis, edges[i + 1], digits)}`;
  const series = {
    type: 'custom',
    name: what,
    data,
    encode: { x: 0, y: 1 },
    renderItem: (_, api) => {
      const [i, j] = [api.value(0), api.value(1)];
      const [x1, y1] = api.coord([px[i], py[j]]);
      const [x2, y2] = api.coord([px[i + 1], py[j + 1]]);
      const style = { fill: api.visual('color') };
      return box(x1, y2, Math.max(x2 - x1, 0.6), Math.max(y1 - y2, 0.6), style);
    },
  };
  chart.add(series, (_, shade, [i, j, n]) => [
    [count(n), `${what} in this cell`],
    ['', range(xAxis, xe, i, 4)],
    ['', range(yAxis, ye, j, 3)],
  ]);
  chart.drew(what, data.length, { total });
  return chart.table(data, [
    [`${axisTitle(xAxis)} from`, ([i]) => xe[i], (v) => shown(xAxis, v, 4)],
    [`${axisTitle(yAxis)} from`, ([, j]) => ye[j], (v) => shown(yAxis, v)],
    ['to', ([, j]) => ye[j + 1], (v) => shown(yAxis, v)],
    [what, ([, , n]) => n, count],
  ]);
}
