// The time axis of captures: seconds since each capture's first packet, stalls as bands on it.

import { h } from '../dom.js';
import { colour } from '../theme.js';

export const TIME_NAME = 'seconds since the first packet';
const BAND = {
  server_stalled: 'severe', network_loss: 'c2', client_waited: 'c7', capture_loss: 'c5',
  client_paused: 'c8',
};

/** How a kind of gap is painted. */
export const bandColour = (kind) => colour(BAND[kind] ?? 'c8');

/** Layers that shade a capture's gaps. */
export function bands(capture, [a, b], low = false) {
  const seen = capture.gaps.filter((gap) => gap.to_s >= a && gap.from_s <= b);
  return Object.keys(BAND).flatMap((kind) => {
    const items = seen.filter((gap) => gap.kind === kind)
      .map((gap) => ({ from: gap.from_s, to: gap.to_s, label: gap.key }));
    return items.length
      ? [{ kind: 'shades', items, low, colour: bandColour(kind), opacity: 0.16 }] : [];
  });
}

/** Legend entries of the kinds that occur. */
export function bandLegend(captures) {
  const kinds = new Map(captures.flatMap((c) => c.gaps.map((gap) => [gap.kind, gap.kind_name])));
  return [...kinds].map(([kind, name]) => {
    const chip = h('i', { class: 'chip band' });
    chip.style.color = bandColour(kind);
    return h('span', { class: 'entry' }, chip, name);
  });
}

/** Wall clock of an instant, UTC, to the microsecond. */
export function clock(capture, at_s) {
  const [whole_s, rest_ns] = capture.first; // seconds since 1970, nanoseconds within
  const ns = rest_ns + Math.round(at_s * 1e9);
  const second = whole_s + Math.floor(ns / 1e9);
  const micros = Math.floor((((ns % 1e9) + 1e9) % 1e9) / 1e3);
  const text = new Date(second * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}.${String(micros).padStart(6, '0')} UTC`;
}
