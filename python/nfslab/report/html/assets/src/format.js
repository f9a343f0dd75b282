// Numbers as every output writes them: the rule of nfslab.display.numbers, with the same table of
// cases (tests/display/numbers.json). Three significant digits, rounded as written (half away from
// zero); times in ns to s, sizes in binary multiples; whole numbers are never cut.

const ABSENT = '–';
const DIGITS = 3;
const EXACT_BELOW = 1e15;
const WHOLE_WITHIN = 1e-12; // relative: 100 times 0.83 is 83
const SMALLEST = 1e-6;
const P_SMALLEST = 1e-4;
const TIME_S = { ns: 1e-9, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1 };
const TIME_STEPS = [
  [1, 's'],
  [1e-3, 'ms'],
  [1e-6, 'µs'],
  [1e-9, 'ns'],
];
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];
const SHOWN_UNIT = { bytes: 'B', 'bytes/s': 'B/s', '': '1', count: '1' };

const absent = (value) => value === null || value === undefined || Number.isNaN(value);
const thousands = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ',');

/** |value| rounded as it is written: its digits (so many) and the power of ten of the first. */
function rounded(value, digits) {
  const [mantissa, power] = Math.abs(value).toExponential().split('e');
  const all = mantissa.replace('.', '');
  if (all.length <= digits) return { digits: all.padEnd(digits, '0'), power: Number(power) };
  const up = all[Math.max(0, digits)] >= '5' ? 1n : 0n;
  const kept = (BigInt(all.slice(0, digits)) + up).toString();
  const over = kept.length - digits;
  return { digits: kept.slice(0, digits), power: Number(power) + over };
}

/** |value| with so many decimals, rounded as it is written. */
function fixed(value, decimals) {
  const { power } = rounded(value, 17);
  const kept = power + 1 + decimals;
  const found = kept >= 0 ? rounded(value, kept) : { digits: '', power };
  const scaled = found.digits
    .padEnd(Math.max(0, found.power + 1 + decimals), '0')
    .padStart(decimals + 1, '0'); // value * 10^decimals, a whole number
  const whole = scaled.slice(0, scaled.length - decimals);
  return thousands(whole) + (decimals ? `.${scaled.slice(-decimals)}` : '');
}

/** A number with that many significant digits and thousands separators. `trim`: without zeros at
    the end (ticks). */
export function number(value, digits = DIGITS, trim = false) {
  if (absent(value)) return ABSENT;
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const sign = value < 0 ? '−' : '';
  const whole = Math.round(size);
  if (size < EXACT_BELOW && Math.abs(size - whole) <= WHOLE_WITHIN * size) {
    return sign + thousands(String(whole));
  }
  const found = rounded(value, digits);
  if (size < SMALLEST || size >= EXACT_BELOW) {
    const tail = found.digits.slice(1);
    return `${sign}${found.digits[0]}${tail ? `.${tail}` : ''}e${found.power}`;
  }
  const text = sign + fixed(value, Math.max(0, digits - 1 - found.power));
  return trim && text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** A whole number, exact. */
export const count = (value) =>
  absent(value)
    ? ABSENT
    : `${value < 0 ? '−' : ''}${thousands(String(Math.abs(Math.round(value))))}`;

/** Divisor and shown unit that suit a value as it will be written: 999.9 µs is 1.00 ms. */
export function prefix(value, given, digits = DIGITS) {
  const unit = SHOWN_UNIT[given] ?? given;
  if (!Number.isFinite(value) || value === 0) return { divisor: 1, unit };
  if (unit in TIME_S) {
    const found = rounded(value, digits);
    const seconds =
      Number(`${found.digits[0]}.${found.digits.slice(1)}0e${found.power}`) * TIME_S[unit];
    const [step, shown] =
      TIME_STEPS.find(([least]) => seconds >= least * 0.9999999) ?? TIME_STEPS[3];
    return { divisor: step / TIME_S[unit], unit: shown };
  }
  if (unit === 'B' || unit === 'B/s') {
    const power = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.abs(value)) / 10 + 1e-12)));
    return { divisor: 1024 ** power, unit: BINARY[power] + unit };
  }
  return { divisor: 1, unit };
}

/** What stands behind a number: '1/s' becomes '/s'. */
export function suffix(unit) {
  if (!unit || unit === '1') return '';
  return unit.startsWith('1/') ? unit.slice(1) : ` ${unit}`;
}

/** A value with its unit, e.g. quantity(0.0123, 's') is '12.3 ms'. */
export function quantity(value, unit, digits = DIGITS) {
  if (absent(value)) return ABSENT;
  const { divisor, unit: shown } = prefix(value, unit, digits);
  return number(value / divisor, digits) + suffix(shown);
}

/** 'low to high' in one common unit. */
export function interval(low, high, unit = '', digits = DIGITS) {
  if (absent(low) || absent(high)) return ABSENT;
  const finite = [low, high].filter(Number.isFinite).map(Math.abs);
  const { divisor, unit: shown } = prefix(Math.max(0, ...finite), unit, digits);
  return `${number(low / divisor, digits)} to ${number(high / divisor, digits)}${suffix(shown)}`;
}

/** A quantile as people name it: 0.999 is 'p99.9'. */
export function quantileName(q) {
  if (q <= 0) return 'min';
  if (q >= 1) return 'max';
  const nines = Math.max(0, Math.ceil(-Math.log10(1 - q) - 1e-6) - 2);
  return `p${(q * 100).toFixed(Math.min(6, nines))}`;
}

/** A share of 0 to 1 as per cent. */
export const percent = (value, digits = DIGITS) =>
  absent(value) ? ABSENT : `${number(value * 100, digits)} %`;

/** A ratio: three digits behind the point near 1, fewer far from it. */
export function ratio(value) {
  if (absent(value)) return ABSENT;
  return value >= 0.1 && value < 10 ? fixed(value, 3) : number(value);
}

/** A probability: two digits, a power of ten when it is tiny. */
export function pValue(p) {
  if (absent(p)) return ABSENT;
  if (!(p > 0 && p < P_SMALLEST)) return number(p, 2);
  const found = rounded(p, 1);
  return `${found.digits}e${found.power}`;
}
