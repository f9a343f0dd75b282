// Numbers as people read them: three significant digits, the unit always beside them.
// Time units are brought to ns, µs, ms or s; sizes to binary multiples (KiB, MiB, ...).

const TIME_S = { ns: 1e-9, us: 1e-6, 'µs': 1e-6, ms: 1e-3, s: 1 };
const TIME_STEPS = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];
const ABSENT = '–';

/** What kind of quantity a unit belongs to: 'time', 'bytes' or 'plain'. */
export function family(unit) {
  if (unit in TIME_S) return 'time';
  if (/^(bytes|B)(\/s)?$/.test(unit)) return 'bytes';
  return 'plain';
}

/** A number with `digits` significant digits and thousands separators, no exponent; whole
    numbers without decimals. `trim`: without zeros at the end (ticks). */
export function number(value, digits = 3, trim = false) {
  if (value === null || value === undefined || Number.isNaN(value)) return ABSENT;
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-6 || size >= 1e15)) return value.toExponential(digits - 1);
  const decimals = size === 0 ? 0
    : Math.min(10, Math.max(0, digits - 1 - Math.floor(Math.log10(size) + 1e-12)));
  return value.toLocaleString('en-US',
    { minimumFractionDigits: trim || Number.isInteger(value) ? 0 : decimals,
      maximumFractionDigits: decimals }).replace('-', '−');
}

/** A whole number, exact, with thousands separators. */
export const count = (value) => (value === null || value === undefined ? ABSENT
  : Math.round(value).toLocaleString('en-US'));

/** Divisor and shown unit that suit values around `size` in `unit`. */
export function prefix(size, unit) {
  const kind = family(unit);
  if (kind === 'time') {
    const seconds = Math.abs(size) * TIME_S[unit];
    const [step, shown] = seconds === 0 ? [TIME_S[unit], unit]
      : TIME_STEPS.find(([least]) => seconds >= least * 0.9999999) ?? TIME_STEPS[3];
    return { divisor: step / TIME_S[unit], unit: shown };
  }
  if (kind === 'bytes') {
    const rate = unit.endsWith('/s') ? '/s' : '';
    const power = size === 0 ? 0
      : Math.min(5, Math.max(0, Math.floor(Math.log2(Math.abs(size)) / 10 + 1e-12)));
    return { divisor: 1024 ** power, unit: `${BINARY[power]}B${rate}` };
  }
  return { divisor: 1, unit };
}

/** The unit as written after a number: '1/s' becomes '/s', '%' stays without a space. */
export function suffix(unit) {
  if (!unit || unit === '1') return '';
  if (unit === '1/s') return '/s';
  return unit === '%' ? ' %' : ` ${unit}`;
}

/** A value with its unit, e.g. quantity(0.0123, 's') is '12.3 ms'. */
export function quantity(value, unit, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return ABSENT;
  const { divisor, unit: shown } = prefix(value, unit);
  return number(value / divisor, digits) + suffix(shown);
}

/** 'low to high' in one common unit. */
export function interval(low, high, unit, digits = 3) {
  if (low === null || high === null) return ABSENT;
  const { divisor, unit: shown } = prefix(Math.max(Math.abs(low), Math.abs(high)), unit);
  return `${number(low / divisor, digits)} to ${number(high / divisor, digits)}${suffix(shown)}`;
}

/** A quantile as people name it: 0.999 is 'p99.9'. */
export function quantileName(q) {
  if (q <= 0) return 'min';
  if (q >= 1) return 'max';
  const nines = Math.max(0, Math.ceil(-Math.log10(1 - q) - 1e-6) - 2);
  return `p${(q * 100).toFixed(Math.min(6, nines))}`;
}

/** Share 0..1 as per cent. */
export const share = (value, digits = 3) => `${number(value * 100, digits)} %`;
