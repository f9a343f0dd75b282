// Axes of drawings as ECharts' options: four scales, names, ticks in people's units.

import { count, number, percent, prefix, quantileName, quantity, suffix } from './format.js';
import { colour } from './theme.js';

const PAD = 0.05;
const ZERO_BELOW_SHARE = 0.5; // a linear scale starts at 0 when its least value is below it
const REACH_SPANS = 2; // intervals are drawn so many spans of the values beyond these
const REACH_TIMES = 4; // or by this factor on a log scale, by the largest value on a linear one
const TICK_DIGITS = 12; // at most: zeros at the end are cut
const NARROW = 3; // high / low of log axes with ticks as a linear one
const PLAIN_UNIT = /^(1|#|1\/s|ns|us|µs|ms|s|B|B\/s|bytes|bytes\/s|share|%)$/;

export function scaleOf(axis, switched) {
  const scale = axis.scale ?? 'linear';
  if (!switched.log_choice || !axis.log_choice) return scale;
  return scale === 'log' ? 'linear' : 'log';
}

/** Values as they are placed on an axis. */
export function placed(values, scale) {
  if (!values) return [];
  if (scale === 'nines') return Array.from(values, (q) => (q < 1 ? -Math.log10(1 - q) : NaN));
  if (scale === 'log') return Array.from(values, (v) => (v > 0 ? v : NaN));
  return values;
}

/** Ends of intervals, no farther from the (placed) values than an axis is drawn for them: an
 * interval of decades leaves the figure, the values do not shrink to a line. */
export function reached(ends, values, scale) {
  const [inner, outer] = scale === 'log' ? [Math.log, Math.exp] : [(v) => v, (v) => v];
  let [low, high] = [Infinity, -Infinity];
  for (const v of ends.length ? values : []) {
    const at = inner(v);
    if (at < low) low = at;
    if (at > high) high = at;
  }
  if (!(low <= high)) return ends;
  const least = scale === 'log' ? Math.log(REACH_TIMES) : Math.max(Math.abs(low), Math.abs(high));
  const reach = Math.max(REACH_SPANS * (high - low), least);
  return ends.map((v) => outer(Math.min(Math.max(inner(v), low - reach), high + reach)));
}

/** Ends of an axis over placed values: those it was given, else wide enough for all of them. */
function domainOf(axis, scale, arrays, switched) {
  if (scale === 'ordinal') return [-0.5, axis.levels.length - 0.5];
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays) {
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
  }
  if (!(low <= high)) [low, high] = scale === 'log' ? [1, 10] : [0, 1];
  if (scale === 'log') {
    const wide = Math.max((high / low) ** PAD, 10 ** ((0.2 - Math.log10(high / low)) / 2), 1.05);
    [low, high] = [low / wide, high * wide];
  } else {
    const pad = (high - low) * PAD || Math.abs(high) * PAD || 1;
    const fromZero = low >= 0 && low <= ZERO_BELOW_SHARE * high;
    [low, high] = [fromZero ? 0 : low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
  }
  if (scale !== (axis.scale ?? 'linear')) return [low, high];
  const given = switched.common && axis.common ? axis.common : [axis.low, axis.high];
  const at = placed(Float64Array.from(given, (v) => v ?? NaN), scale);
  return [Number.isNaN(at[0]) ? low : at[0], Number.isNaN(at[1]) ? high : at[1]];
}

/** A value in a unit; "share": 0 to 1, "#": a whole number. */
export function worded(value, unit = '', digits = 3) {
  if (unit === 'share') return percent(value, digits);
  return unit === '#' ? count(value) : quantity(value, unit, digits);
}

const namedLevel = (axis, value) => {
  const near = (v) => Math.abs(v - value) <= 1e-9 * Math.abs(v);
  return axis.levels?.[Array.from(axis.at ?? []).findIndex(near)];
};

/** A value as tooltips and tables have it; `value` is in the axis' unit, not placed. */
export function shown(axis, value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (axis.scale === 'ordinal') return axis.levels[value] ?? '';
  if (axis.scale === 'nines') return quantileName(value);
  return namedLevel(axis, value) ?? worded(value, axis.unit, digits);
}

export const axisTitle = ({ name, unit, scale }) =>
  scale === 'ordinal' || !unit || PLAIN_UNIT.test(unit) ? name : `${name} (${unit})`;

/** Round places between two ends, about `parts` apart; sizes at round binary multiples. */
function even(axis, [low, high], parts) {
  const unit = prefix(high - low, axis.unit).binary ?? 1;
  const wanted = (high - low) / unit / parts;
  const power = 10 ** Math.floor(Math.log10(wanted));
  const multiples = axis.unit === 'share' ? [1, 2.5, 5, 10] : [1, 2, 5, 10];
  let step = unit * power * multiples.find((m) => m * power >= wanted * 0.7);
  if (axis.unit === '#' || axis.scale === 'nines') step = Math.max(1, step);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    out.push(k * step);
  }
  return out;
}

/** Places of a log axis: first digits 1 to 9, or fewer where it spans more. */
function decades(axis, [low, high], parts) {
  if (high / low < NARROW) return even(axis, [low, high], parts);
  const span = Math.log10(high / low);
  const digits = span > 2.5 ? [1] : span > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const out = [];
  const sized = prefix(1, axis.unit).binary;
  const base = sized ? 1024 : 10;
  for (let p = Math.floor(Math.log(low) / Math.log(base)); base ** p <= high; p += 1) {
    for (const tens of sized ? [1, 10, 100, 1000] : [1]) {
      for (const digit of digits) if (digit * tens < base) out.push(digit * tens * base ** p);
    }
  }
  return out.filter((v) => v >= low && v <= high);
}

/** Ticks for the ends in view (ECharts' own stand at the ends, too, or at powers of ten). */
export function ticks(axis, scale, ends, parts) {
  if (scale === 'ordinal') return {};
  const named = axis.at?.length && axis.levels?.length;
  const customValues = named
    ? Array.from(axis.at)
    : (scale === 'log' ? decades : even)(axis, ends, parts);
  const formatter = (v) => {
    if (named) return namedLevel(axis, v) ?? '';
    if (scale === 'nines') return quantileName(1 - 10 ** -v);
    if (axis.unit === 'share') return `${number(v * 100, TICK_DIGITS, true)} %`;
    const { divisor, unit } = prefix(v, axis.unit === '#' ? '' : (axis.unit ?? ''));
    return number(v / divisor, TICK_DIGITS, true) + suffix(unit);
  };
  return { axisTick: { customValues }, axisLabel: { customValues, formatter } };
}

/**
 * An axis for ECharts: `values` are what it has to hold, placed; `parts`: how many ticks suit its
 * length; `labels`: whether they are written; `room`: what labels of categories may take, in px.
 */
export function axisOption(axis, { values, switched, parts = 5, labels = true, room, ...rest }) {
  const scale = scaleOf(axis, switched);
  const domain = domainOf(axis, scale, values, switched);
  const tick = ticks(axis, scale, domain, parts);
  const category = scale === 'ordinal';
  const made = {
    type: category ? 'category' : scale === 'log' ? 'log' : 'value',
    ...(category ? { data: axis.levels } : { min: domain[0], max: domain[1] }),
    name: axisTitle(axis),
    nameLocation: 'middle',
    nameTextStyle: { color: colour('muted'), fontSize: 12 },
    axisLine: { show: true, onZero: false, lineStyle: { color: colour('frame') } },
    axisTick: { show: labels && !room, lineStyle: { color: colour('frame') }, ...tick.axisTick },
    splitLine: { show: !category, lineStyle: { color: colour('grid') } },
    minorTick: { show: false },
    ...rest,
    axisLabel: {
      show: labels,
      color: colour('muted'),
      fontSize: 11,
      ...(room ? { width: room, overflow: 'truncate', interval: 0 } : { hideOverlap: true }),
      ...rest.axisLabel,
      ...tick.axisLabel,
    },
  };
  return { made, scale, domain };
}
