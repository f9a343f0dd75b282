// Numbers as every output writes them: the rule of nfslab.display.numbers, with the same table of
// cases (tests/display/numbers.json). Three significant digits, rounded as written (half away from
// zero); times in ns to s, sizes in binary multiples; whole numbers are never cut.

const ABSENT = '–';
const DIGITS = 3;
const EXACT_BELOW = 1e15;
const WHOLE_WITHIN = 1e-12; // relative: 100 times 0.83 is 83
const SMALLEST = 1e-6;
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

const formats = {}; // making one takes longer than using it a hundred times

/** A number as Intl writes it: given as text it is rounded as it is written. */
function written(value, options) {
  const format = (formats[JSON.stringify(options)] ??= new Intl.NumberFormat('en', options));
  return (value < 0 ? '−' : '') + format.format(String(Math.abs(value)));
}

/** Options for so many significant digits, and no fewer. */
const significant = (digits) => ({
  maximumSignificantDigits: digits,
  minimumSignificantDigits: digits,
});

/** |value| with so many significant digits, as a number. */
const rounded = (value, digits) =>
  Number(written(Math.abs(value), { ...significant(digits), useGrouping: false }));

/** A number with that many significant digits and thousands separators. `trim`: without zeros at
    the end (ticks). */
export function number(value, digits = DIGITS, trim = false) {
  if (absent(value)) return ABSENT;
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const whole = Math.round(size);
  if (size < EXACT_BELOW && Math.abs(size - whole) <= WHOLE_WITHIN * size) return count(value);
  if (size < SMALLEST || size >= EXACT_BELOW) {
    return written(value, { ...significant(digits), notation: 'scientific' }).replace('E', 'e');
  }
  const power = Math.floor(Math.log10(rounded(value, digits)) + 1e-12);
  const decimals = Math.max(0, digits - 1 - power);
  const text = written(value, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return trim && text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** A whole number, exact. */
export const count = (value) => (absent(value) ? ABSENT : written(Math.round(value)));

/** Divisor and shown unit that suit a value as it will be written: 999.9 µs is 1.00 ms; of sizes
    the divisor is also given as `binary`. */
export function prefix(value, given, digits = DIGITS) {
  const unit = SHOWN_UNIT[given] ?? given;
  if (!Number.isFinite(value) || value === 0) return { divisor: 1, unit };
  if (unit in TIME_S) {
    const seconds = rounded(value, digits) * TIME_S[unit];
    const [step, shown] =
      TIME_STEPS.find(([least]) => seconds >= least * 0.9999999) ?? TIME_STEPS[3];
    return { divisor: step / TIME_S[unit], unit: shown };
  }
  if (unit === 'B' || unit === 'B/s') {
    const power = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.abs(value)) / 10 + 1e-12)));
    return { divisor: 1024 ** power, unit: BINARY[power] + unit, binary: 1024 ** power };
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
