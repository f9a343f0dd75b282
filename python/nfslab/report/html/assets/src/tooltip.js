// One tooltip for the page. A panel's `hover` tells what lies near the pointer:
//   {points: [{x, y, lines()}]}     the nearest one within reach
//   {xs, lines(i)}                  the sample nearest in x (time series)
//   {at(x, y)}                      anything else (heat maps): lines or null; lines with a
//                                   `ring` [px, py] show what is meant

import { h } from './dom.js';

const REACH_PX = 18;
const tip = h('div', { class: 'tip', role: 'tooltip', hidden: true });

const ring = h('div', { class: 'ring', 'aria-hidden': 'true', hidden: true });

export function hideTip() {
  tip.hidden = true;
  ring.hidden = true;
}

const pixel = ({ rect, x, y }, px, py) => [
  rect.x + ((px - x.domain[0]) / (x.domain[1] - x.domain[0])) * rect.w,
  rect.y + rect.h - ((py - y.domain[0]) / (y.domain[1] - y.domain[0])) * rect.h,
];

function nearestPoint(panel, px, py) {
  let best = REACH_PX ** 2;
  let found = null;
  for (const item of panel.hover.points) {
    const [x, y] = pixel(panel, item.x, item.y);
    const distance = (x + (item.dx ?? 0) - px) ** 2 + (y - py) ** 2;
    if (distance < best) { best = distance; found = item; }
  }
  return found?.lines();
}

function linesAt(panel, px, py) {
  const { hover, rect, x, y } = panel;
  if (!hover) return null;
  if (hover.points) return nearestPoint(panel, px, py);
  const vx = x.domain[0] + ((px - rect.x) / rect.w) * (x.domain[1] - x.domain[0]);
  const vy = y.domain[0] + ((rect.y + rect.h - py) / rect.h) * (y.domain[1] - y.domain[0]);
  if (hover.at) return hover.at(vx, vy);
  let best = -1;
  let least = Infinity;
  for (let i = 0; i < hover.xs.length; i += 1) {
    const distance = Math.abs(hover.xs[i] - vx);
    if (distance < least) { least = distance; best = i; }
  }
  return best < 0 ? null : hover.lines(best);
}

/** Show what is near (px, py) of `host` in `panel`; lines are [strong, rest] pairs. */
export function showTip(host, panel, px, py) {
  const lines = panel ? linesAt(panel, px, py) : null;
  if (!lines?.length) { hideTip(); return; }
  ring.hidden = !lines.ring;
  if (lines.ring) {
    if (ring.parentNode !== host) host.append(ring);
    ring.style.left = `${lines.ring[0]}px`;
    ring.style.top = `${lines.ring[1]}px`;
  }
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map(([strong, rest]) =>
    h('div', {}, h('b', {}, strong), rest ? ` ${rest}` : '')));
  tip.hidden = false;
  const bounds = host.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  let left = bounds.left + px + 14;
  if (left + size.width > room - 8) left = Math.max(8, bounds.left + px - size.width - 14);
  let top = bounds.top + py + 14;
  if (top + size.height > innerHeight - 8) top = Math.max(8, bounds.top + py - size.height - 14);
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${top + scrollY}px`;
}
