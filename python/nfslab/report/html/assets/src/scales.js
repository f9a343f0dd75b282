// Scales and their ticks. A figure works in *positions*: linear in pixels, made from values
// by a scale's `to`. Domains come from the payload (computed once, shared by all panels).

import { family, number, prefix, quantileName, suffix } from './format.js';

export const linear = { name: 'linear', to: (v) => v, from: (p) => p };
export const log = { name: 'log', to: (v) => Math.log10(v), from: (p) => 10 ** p };
/** Percentiles as HdrHistogram draws them: each further nine takes the same room. */
export const nines = {
  name: 'nines', to: (q) => -Math.log10(1 - q), from: (p) => 1 - 10 ** -p,
};
export const scaleNamed = (name) => (name === 'log' ? log : linear);

const MAX_TICKS = 60;

function niceStep(span, wanted, divisor) {
  const raw = span / divisor / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 2.5, 5, 10].find((f) => f * power >= raw * 0.999999) ?? 10;
  return factor * power * divisor;
}

function linearTicks([a, b], wanted, unit) {
  const { divisor, unit: shown } = prefix(Math.max(Math.abs(a), Math.abs(b)), unit);
  const step = niceStep(b - a, wanted, divisor);
  const ticks = [];
  for (let k = Math.ceil(a / step - 1e-9); k * step <= b + step * 1e-9; k += 1) {
    if (ticks.length >= MAX_TICKS) break;
    const value = k * step || 0; // no negative zero
    const digits = significant(value / divisor, step / divisor);
    ticks.push({ at: value, value, label: number(value / divisor, digits, true) + suffix(shown) });
  }
  return ticks;
}

// Enough digits that neighbouring ticks differ.
function significant(value, step) {
  if (value === 0) return 3;
  const magnitude = Math.floor(Math.log10(Math.abs(value)) + 1e-9);
  return Math.max(1, magnitude - Math.floor(Math.log10(step) + 1e-9) + 2);
}

function logTicks([a, b], wanted, unit) {
  const decades = b - a;
  if (decades < 0.7) {
    return linearTicks([10 ** a, 10 ** b], wanted, unit)
      .filter((t) => t.value > 0).map((t) => ({ ...t, at: Math.log10(t.value) }));
  }
  if (family(unit) === 'bytes') return binaryTicks([a, b], wanted, unit);
  const mantissas = decades > wanted ? [1] : decades > 2.2 ? [1] : [1, 2, 5];
  const stride = Math.max(1, Math.ceil(decades / Math.max(2, wanted)));
  const ticks = [];
  for (let e = Math.floor(a); e <= b && ticks.length < MAX_TICKS; e += 1) {
    if (((e % stride) + stride) % stride) continue;
    for (const m of mantissas) {
      const value = m * 10 ** e;
      const at = Math.log10(m) + e;
      if (at < a - 1e-9 || at > b + 1e-9) continue;
      const shown = prefix(value, unit);
      ticks.push({ at, value, label: number(value / shown.divisor, 3, true) + suffix(shown.unit) });
    }
  }
  return ticks;
}

function binaryTicks([a, b], wanted, unit) {
  const stride = Math.max(1, Math.ceil((b - a) / Math.log10(2) / wanted));
  const ticks = [];
  for (let k = Math.ceil(a / Math.log10(2)); k * Math.log10(2) <= b; k += 1) {
    if (k % stride || ticks.length >= MAX_TICKS) continue;
    const value = 2 ** k;
    const shown = prefix(value, unit);
    ticks.push({
      at: k * Math.log10(2), value,
      label: number(value / shown.divisor, 3, true) + suffix(shown.unit),
    });
  }
  return ticks;
}

function nineTicks([a, b]) {
  const names = [[0, 0], [0.5, 0.5], [0.75, 0.75], [0.9, 0.9]];
  for (let k = 2; k <= 7; k += 1) names.push([1 - 10 ** -k, 1 - 10 ** -k]);
  return names.map(([value, q]) => ({ at: nines.to(q), value, label: quantileName(value) }))
    .filter((t) => t.at >= a - 1e-9 && t.at <= b + 1e-9);
}

/** Ticks {at: position, value, label} for a domain of positions. */
export function ticks(scale, domain, wanted = 6, unit = '') {
  if (!(domain[1] > domain[0])) return [];
  if (scale.name === 'log') return logTicks(domain, wanted, unit);
  if (scale.name === 'nines') return nineTicks(domain);
  return linearTicks(domain, wanted, unit);
}

/** Ticks at given levels (an axis of the experiment shows its own levels, nothing else). */
export const levelTicks = (levels, positions, [a, b]) =>
  levels.map((label, i) => ({ at: positions[i], value: label, label: String(label) }))
    .filter((t) => t.at >= a - 1e-9 && t.at <= b + 1e-9);
