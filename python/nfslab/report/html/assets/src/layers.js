// Layers of a panel -> ECharts series. A layer knows positions only (see scales.js):
//   line      {points: [[x, y]], colour, dash, width, opacity}
//   dots      {points: [[x, y]], colour, shape, size, opacity, hollow, rim}
//   intervals {items: [{at, low, high}], colour, width, across}  across: horizontal bars
//   stack     {xs, bands: [{values, colour}], step}   painted cumulated, from the top down
//   rules     {items: [{at, label}], axis: 'x' | 'y', colour, dash}
//   shades    {items: [{from, to, label}], axis, colour, opacity, low}  low: labels below
//   bars      {items: [{at, from, to}], colour}       lying bars
//   labels    {items: [{x, y, text}], colour, align, dx}   may leave the panel

import { colour } from './theme.js';

// Single quotes: ECharts writes attributes of its SVG text without escaping them.
const FONT = "system-ui, 'DejaVu Sans', sans-serif";

const CAP = 4;
const LEAST_BAND = 1.5;
const BAR_PX = 15;

const base = (index) => ({
  xAxisIndex: index, yAxisIndex: index, animation: false, silent: true, clip: true,
});

function line(layer, index) {
  return [{
    ...base(index), type: 'line', data: layer.points, showSymbol: false, connectNulls: false,
    step: layer.step ?? false, z: layer.z ?? 3,
    lineStyle: {
      color: layer.colour, width: layer.width ?? 1.5, type: layer.dash ?? 'solid',
      opacity: layer.opacity ?? 1,
    },
  }];
}

function dots(layer, index) {
  const rim = layer.rim ? { borderColor: colour('bg'), borderWidth: 0.8 } : {};
  const hollow = layer.hollow
    ? { color: 'transparent', borderColor: layer.colour, borderWidth: 1.4 }
    : { color: layer.colour, ...rim };
  return [{
    ...base(index), type: 'scatter', data: layer.points, symbol: layer.shape ?? 'circle',
    symbolSize: layer.size ?? 5, z: layer.z ?? 4, symbolKeepAspect: true,
    itemStyle: { ...hollow, opacity: layer.opacity ?? 1 },
  }];
}

function custom(layer, index, data, renderItem, clip = true) {
  return [{ ...base(index), type: 'custom', data, renderItem, clip, z: layer.z ?? 3 }];
}

const segment = (x1, y1, x2, y2, style) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style });

function intervals(layer, index) {
  const style = { stroke: layer.colour, lineWidth: layer.width ?? 1.6 };
  const data = layer.items.map((item) => [item.at, item.low, item.high]);
  return custom(layer, index, data, (params, api) => {
    const across = layer.across ?? false;
    const at = api.value(0);
    const [a, b] = [api.value(1), api.value(2)]
      .map((v) => (across ? api.coord([v, at]) : api.coord([at, v])));
    const caps = across
      ? [a, b].map((p) => segment(p[0], p[1] - CAP, p[0], p[1] + CAP, style))
      : [a, b].map((p) => segment(p[0] - CAP, p[1], p[0] + CAP, p[1], style));
    return { type: 'group', children: [segment(a[0], a[1], b[0], b[1], style), ...caps] };
  });
}

function stack(layer, index) {
  const total = new Float64Array(layer.xs.length);
  const painted = layer.bands.map((band) => {
    const points = [];
    for (let i = 0; i < layer.xs.length; i += 1) {
      total[i] += Number.isNaN(band.values[i]) ? 0 : band.values[i];
      points.push([layer.xs[i], Number.isNaN(band.values[i]) ? null : total[i]]);
    }
    return {
      ...base(index), type: 'line', data: points, showSymbol: false, step: layer.step ?? false,
      lineStyle: { color: colour('bg'), width: 0.5 },
      areaStyle: { color: band.colour, opacity: 1, origin: 'start' },
    };
  });
  return painted.reverse().map((series, k) => ({ ...series, z: 2 + k * 0.001 }));
}

function rules(layer, index) {
  const style = {
    stroke: layer.colour, lineWidth: layer.width ?? 1.2, lineDash: layer.dash ?? [5, 4],
  };
  const data = layer.items.map((item) => [item.at]);
  return custom(layer, index, data, (params, api) => {
    const { x, y, width, height } = params.coordSys;
    const label = layer.items[params.dataIndex].label;
    const upright = layer.axis !== 'y';
    const at = upright ? api.coord([api.value(0), 0])[0] : api.coord([0, api.value(0)])[1];
    if (upright ? at < x - 0.5 || at > x + width + 0.5 : at < y - 0.5 || at > y + height + 0.5) {
      return null;
    }
    const children = [upright ? segment(at, y, at, y + height, style)
      : segment(x, at, x + width, at, style)];
    if (label) {
      const left = upright && at < x + width * 0.7;
      children.push({
        type: 'text',
        style: {
          text: label, fill: layer.colour, fontSize: 11, fontFamily: FONT,
          x: upright ? at + (left ? 4 : -4) : x + width - 4, y: upright ? y + 3 : at - 3,
          align: upright && left ? 'left' : 'right', verticalAlign: upright ? 'top' : 'bottom',
        },
      });
    }
    return { type: 'group', children };
  });
}

function shades(layer, index) {
  const data = layer.items.map((item) => [item.from, item.to]);
  return custom({ ...layer, z: 1 }, index, data, (params, api) => {
    const { x, y, width, height } = params.coordSys;
    const upright = layer.axis !== 'y';
    const [p, q] = [0, 1].map((k) => (upright
      ? api.coord([api.value(k), 0])[0] : api.coord([0, api.value(k)])[1]));
    const [low, high] = [Math.min(p, q), Math.max(p, q)];
    const shape = upright ? { x: low, y, width: high - low, height }
      : { x, y: low, width, height: high - low };
    const band = {
      type: 'rect', shape, style: { fill: layer.colour, opacity: layer.opacity ?? 0.12 },
    };
    const { label } = layer.items[params.dataIndex];
    if (!label) return band;
    // At least a line, however short the band is.
    band.shape.x = Math.min(low, high - LEAST_BAND);
    band.shape.width = Math.max(high - low, LEAST_BAND);
    return {
      type: 'group',
      children: [band, {
        type: 'text',
        style: {
          text: label, x: Math.max(low, x) + 3, y: layer.low ? y + height - 3 : y + 3,
          fill: layer.colour, fontSize: 10.5, fontFamily: FONT, fontWeight: 600, align: 'left',
          verticalAlign: layer.low ? 'bottom' : 'top',
        },
      }],
    };
  });
}

function bars(layer, index) {
  const data = layer.items.map((item) => [item.from, item.at, item.to]);
  return custom(layer, index, data, (params, api) => {
    const [x0, y0] = api.coord([api.value(0), api.value(1)]);
    const [x1] = api.coord([api.value(2), api.value(1)]);
    const shape = { x: x0, y: y0 - BAR_PX / 2, width: x1 - x0, height: BAR_PX };
    return { type: 'rect', shape, style: { fill: layer.colour } };
  });
}

function labels(layer, index) {
  const data = layer.items.map((item) => [item.x, item.y]);
  return custom(layer, index, data, (params, api) => {
    const [px, py] = api.coord([api.value(0), api.value(1)]);
    const { y, height } = params.coordSys;
    if (py < y - 1 || py > y + height + 1) return null;
    const item = layer.items[params.dataIndex];
    return {
      type: 'text',
      style: {
        text: item.text, x: px + (layer.dx ?? 0), y: py, fill: item.colour ?? layer.colour,
        fontSize: layer.size ?? 12, fontFamily: FONT, align: layer.align ?? 'left',
        verticalAlign: 'middle',
        fontWeight: layer.bold ? 600 : 400,
      },
    };
  }, false);
}

const KINDS = { line, dots, intervals, stack, rules, shades, bars, labels };

/** ECharts series of one layer in panel `index`. */
export const seriesOf = (layer, index) => KINDS[layer.kind](layer, index);
