// One set of gestures for all figures: drag a box to zoom, double click or 0 to reset,
// arrows to pan, + and - to zoom; the wheel zooms only with Ctrl or while the figure has
// the focus, so that scrolling the page never catches on a figure.

import { s } from './dom.js';

const LEAST_DRAG_PX = 5;
const PAN_SHARE = 0.15;
const KEY_ZOOM = 0.6;
const WHEEL_RATE = 0.002;

function panelAt(scene, px, py, slack = 0) {
  return scene.panels.find(({ rect: r }) => px >= r.x - slack && px <= r.x + r.w + slack
    && py >= r.y - slack && py <= r.y + r.h + slack);
}

const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

/** Bind to `focusable` (keys) and `host` (pointer); `view()` gives {viewport, scene, axes}. */
export function bindGestures(focusable, host, view, hover) {
  const box = s('svg', { class: 'zoom-box', 'aria-hidden': 'true' }, s('rect', {}));
  host.append(box);
  const rect = box.firstChild;
  let start = null;

  const place = (event) => {
    const bounds = host.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  };

  const shares = (panel, px, py) => [
    clamp((px - panel.rect.x) / panel.rect.w, 0, 1),
    clamp(1 - (py - panel.rect.y) / panel.rect.h, 0, 1),
  ];

  const showBox = (panel, from, to, axes) => {
    const { x, y, w, h } = panel.rect;
    const left = axes.includes('x') ? Math.min(from[0], to[0]) : x;
    const top = axes.includes('y') ? Math.min(from[1], to[1]) : y;
    rect.setAttribute('x', left);
    rect.setAttribute('y', top);
    rect.setAttribute('width', axes.includes('x') ? Math.abs(to[0] - from[0]) : w);
    rect.setAttribute('height', axes.includes('y') ? Math.abs(to[1] - from[1]) : h);
  };
  const hideBox = () => { rect.setAttribute('width', 0); rect.setAttribute('height', 0); };

  host.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || !view().scene) return;
    const [px, py] = place(event);
    const panel = panelAt(view().scene, px, py);
    if (!panel) return;
    start = { panel, from: [px, py], id: event.pointerId };
    host.setPointerCapture(event.pointerId);
  });

  host.addEventListener('pointermove', (event) => {
    if (!view().scene) return;
    const [px, py] = place(event);
    if (!start) { hover(panelAt(view().scene, px, py), px, py); return; }
    hover(null);
    const { x, y, w, h } = start.panel.rect;
    start.to = [clamp(px, x, x + w), clamp(py, y, y + h)];
    showBox(start.panel, start.from, start.to, view().axes);
  });

  const finish = (event) => {
    if (!start) return;
    const { panel, from, to } = start;
    start = null;
    hideBox();
    if (event.type === 'pointercancel' || !to) return;
    const { viewport, axes } = view();
    const [a, b] = [shares(panel, ...from), shares(panel, ...to)];
    const range = ([low, high], p, q) => [low + Math.min(p, q) * (high - low),
      low + Math.max(p, q) * (high - low)];
    const wide = axes.includes('x') && Math.abs(to[0] - from[0]) >= LEAST_DRAG_PX;
    const tall = axes.includes('y') && Math.abs(to[1] - from[1]) >= LEAST_DRAG_PX;
    if (!wide && !tall) return;
    viewport.set(wide ? range(viewport.x, a[0], b[0]) : null,
      tall ? range(viewport.y, a[1], b[1]) : null);
  };
  host.addEventListener('pointerup', finish);
  host.addEventListener('pointercancel', finish);
  host.addEventListener('pointerleave', () => { if (!start) hover(null); });
  host.addEventListener('dblclick', () => view().viewport.reset());

  host.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && document.activeElement !== focusable) return;
    if (!view().scene) return;
    const [px, py] = place(event);
    const panel = panelAt(view().scene, px, py);
    if (!panel) return;
    event.preventDefault();
    const [cx, cy] = shares(panel, px, py);
    const { viewport, axes } = view();
    viewport.zoom(Math.exp(clamp(event.deltaY, -300, 300) * WHEEL_RATE),
      axes.includes('x') ? cx : null, axes.includes('y') ? cy : null);
  }, { passive: false });

  focusable.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== focusable) return;
    const { viewport, axes } = view();
    const centre = [axes.includes('x') ? 0.5 : null, axes.includes('y') ? 0.5 : null];
    const actions = {
      ArrowLeft: () => viewport.pan(-PAN_SHARE, 0),
      ArrowRight: () => viewport.pan(PAN_SHARE, 0),
      ArrowUp: () => viewport.pan(0, PAN_SHARE),
      ArrowDown: () => viewport.pan(0, -PAN_SHARE),
      '+': () => viewport.zoom(KEY_ZOOM, ...centre),
      '=': () => viewport.zoom(KEY_ZOOM, ...centre),
      '-': () => viewport.zoom(1 / KEY_ZOOM, ...centre),
      0: () => viewport.reset(),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  });
}
