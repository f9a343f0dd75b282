// Axes of drawings as ECharts' options: four scales, names, ticks in people's units.

import { count, number, percent, prefix, quantileName, quantity, suffix } from './format.js';
import { colour } from './theme.js';

const PAD = 0.05;
const ZERO_BELOW_SHARE = 0.5; // a linear scale starts at 0 when its least value is below it
const NARROW = 3; // high / low of log axes with ticks as a linear one
const DECADES_PLAIN = 2.5; // log axes that span more have ticks at powers of ten only

export const scaleOf = (axis, switched) => {
  const scale = axis.scale ?? 'linear';
  if (!switched.log_choice || !axis.log_choice) return scale;
  return scale === 'log' ? 'linear' : 'log';
};

/** Values as they are placed on an axis. */
export function placed(values, scale) {
  if (!values) return [];
  if (scale === 'nines') return Array.from(values, (q) => (q < 1 ? -Math.log10(1 - q) : NaN));
  if (scale === 'log') return Array.from(values, (v) => (v > 0 ? v : NaN));
  return values;
}

export function extent(arrays) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays) {
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
  }
  return [low, high];
}

/** Ends of an axis over placed values: those it was given, else wide enough for all of them. */
export function domainOf(axis, arrays, switched = {}) {
  const scale = scaleOf(axis, switched);
  if (scale === 'ordinal') return [-0.5, axis.levels.length - 0.5];
  const given = switched.common && axis.common ? axis.common : [axis.low, axis.high];
  const fits = scale === (axis.scale ?? 'linear');
  const at = fits
    ? placed(
        Array.from(given, (v) => v ?? NaN),
        scale,
      )
    : [NaN, NaN];
  let [low, high] = extent(arrays);
  if (!(low <= high)) [low, high] = scale === 'log' ? [1, 10] : [0, 1];
  if (scale === 'log') {
    const wide = Math.max((high / low) ** PAD, 10 ** ((0.2 - Math.log10(high / low)) / 2), 1.05);
    [low, high] = [low / wide, high * wide];
  } else {
    const pad = (high - low) * PAD || Math.abs(high) * PAD || 1;
    const fromZero = low >= 0 && low <= ZERO_BELOW_SHARE * high;
    [low, high] = [fromZero ? 0 : low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
  }
  return [Number.isNaN(at[0]) ? low : at[0], Number.isNaN(at[1]) ? high : at[1]];
}

/** A value in a unit; "share": 0 to 1, "#": a whole number. */
export function worded(value, unit = '', digits = 3) {
  if (unit === 'share') return percent(value, digits);
  return unit === '#' ? count(value) : quantity(value, unit, digits);
}

const namedLevel = (axis, value) => {
  const at = axis.at
    ? Array.from(axis.at).findIndex((v) => Math.abs(v - value) <= 1e-9 * Math.abs(v))
    : -1;
  return at < 0 ? null : (axis.levels?.[at] ?? null);
};

/** A value as tooltips and tables have it; `value` is in the axis' unit, not placed. */
export function shown(axis, value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (axis.scale === 'ordinal') return axis.levels[value] ?? '';
  if (axis.scale === 'nines') return quantileName(value);
  return namedLevel(axis, value) ?? worded(value, axis.unit, digits);
}

export const axisTitle = (axis) => {
  const unit =
    axis.scale === 'ordinal' ||
    !axis.unit ||
    /^(1|#|1\/s|ns|us|µs|ms|s|B|B\/s|bytes|bytes\/s|share|%)$/.test(axis.unit);
  return unit ? axis.name : `${axis.name} (${axis.unit})`;
};

// Ticks stand at round places; the ends of a zoomed axis, which ECharts adds, have no label.
function round(value, span, base = 1) {
  const step = (base * 10 ** Math.floor(Math.log10(span / base / 4))) / 4;
  return Math.abs(value / step - Math.round(value / step)) < 1e-6;
}

// Sizes have ticks at round binary multiples.
const isSize = (axis) => /^(B|bytes)(\/s)?$/.test(axis.unit ?? '');
const binary = (axis, span) => (isSize(axis) ? prefix(span, axis.unit).divisor : 1);

function binaryInterval(axis, [low, high], parts) {
  const base = binary(axis, high - low);
  const wanted = (high - low) / base / parts;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return base * power * [1, 2, 5, 10].find((m) => m * power >= wanted);
}

function linearLabel(axis, value, span) {
  if (!round(value, span, binary(axis, span))) return '';
  const size = Math.max(Math.abs(value), span / 1000);
  const digits = Math.min(12, Math.max(3, Math.ceil(Math.log10(size / span)) + 3));
  if (axis.unit === 'share') return `${number(value * 100, digits, true)} %`;
  const { divisor, unit } = prefix(value, axis.unit === '#' ? '' : (axis.unit ?? ''));
  return number(value / divisor, digits, true) + suffix(unit);
}

// Below half a decade ticks stand at round places, as on a linear axis.
const narrow = ([low, high]) => high / low < NARROW;

function logTicks(axis, [low, high]) {
  const out = [];
  const unit = binary(axis, high);
  if (narrow([low, high])) {
    const step = (unit * 10 ** Math.floor(Math.log10((high - low) / unit / 4))) / 4;
    for (let k = Math.ceil(low / step); k * step <= high; k += 1) out.push(k * step);
    return out;
  }
  const sized = isSize(axis);
  for (let p = 0; p < (sized ? 6 : 1); p += 1) {
    const [first, last] = sized
      ? [0, 3]
      : [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    for (let k = first; k <= last; k += 1) {
      for (let m = 1; m < 10; m += 1)
        if (!sized || m * 10 ** k < 1024) out.push(m * 10 ** k * 1024 ** p);
    }
  }
  return out.filter((v) => v >= low && v <= high);
}

function logLabel(axis, value, [low, high]) {
  if (narrow([low, high])) {
    const unit = binary(axis, high);
    const base = unit * 10 ** Math.floor(Math.log10((high - low) / unit / 4));
    const step = (high - low) / base > 12 ? 5 * base : (high - low) / base > 6 ? 2 * base : base;
    return Math.abs(value / step - Math.round(value / step)) < 1e-6
      ? linearLabel(axis, value, high - low)
      : '';
  }
  const decades = Math.log10(high / low);
  const plain = value / binary(axis, value);
  const first = Math.round(plain / 10 ** Math.floor(Math.log10(plain) + 1e-9));
  const kept =
    decades > DECADES_PLAIN ? [1] : decades > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  return kept.includes(first) ? quantity(value, axis.unit ?? '', 1) : '';
}

/**
 * An axis for ECharts. `view()` gives the ends that are in view now, for labels; `room` is the
 * width of the labels of a vertical axis.
 */
export function axisOption(axis, { domain, scale, view, labels = true, named = true, ...rest }) {
  const made = {
    min: domain[0],
    max: domain[1],
    name: named ? axisTitle(axis) : '',
    nameLocation: 'middle',
    nameTextStyle: { color: colour('muted'), fontSize: 12 },
    axisLine: { show: true, onZero: false, lineStyle: { color: colour('frame') } },
    axisTick: { show: labels, lineStyle: { color: colour('frame') } },
    splitLine: { lineStyle: { color: colour('grid') } },
    minorTick: { show: false },
    axisLabel: { show: labels, color: colour('muted'), fontSize: 11, hideOverlap: true },
    ...rest,
  };
  const label = made.axisLabel;
  const span = () => view()[1] - view()[0];
  if (scale === 'ordinal') {
    return {
      ...made,
      min: undefined,
      max: undefined,
      type: 'category',
      data: axis.levels,
      splitLine: { show: false },
      axisLabel: { ...label, ...rest.axisLabel },
    };
  }
  if (axis.at?.length && axis.levels?.length) {
    const values = Array.from(axis.at);
    made.axisTick.customValues = values;
    label.customValues = values;
    label.formatter = (v) => namedLevel(axis, v) ?? '';
  } else if (scale === 'log') {
    const values = logTicks(axis, domain);
    made.axisTick.customValues = values.filter((v) => logLabel(axis, v, domain));
    label.customValues = values;
    label.formatter = (v) => logLabel(axis, v, view());
  } else if (scale === 'nines') {
    made.interval = 1;
    label.formatter = (v) => (round(v, span()) ? quantileName(1 - 10 ** -v) : '');
  } else {
    label.formatter = (v) => linearLabel(axis, v, span());
    if (axis.unit === 'share' && domain[0] === 0 && domain[1] >= 0.9) made.interval = 0.25;
    else if (binary(axis, domain[1] - domain[0]) > 1) {
      made.interval = binaryInterval(axis, domain, rest.splitNumber ?? 5);
    }
  }
  return { ...made, type: scale === 'log' ? 'log' : 'value' };
}
