// Figure: a flame graph of CPU time, root on top, drawn on a canvas: tens of thousands of frames
// are painted at once in some milliseconds. Width is a share of CPU time; what was idle lies
// beside it. User and kernel frames differ in colour; shades only tell neighbours apart. A click
// on a frame fits it to the width; a search marks frames and says how much time they are together.

import { column } from '../data.js';
import { checkbox, h, select, uniqueId } from '../dom.js';
import { count, quantity, share } from '../format.js';
import { linear, ticks } from '../scales.js';
import { colour } from '../theme.js';

const ROW_PX = 17;
const LEAST_PX = 0.4; // narrower frames are not painted
const DEEP_PX = 3; // frames as wide as this decide how deep the figure is
const LEAST_ROWS = 6;
const MOST_ROWS = 100;
const LETTER_PX = 6.1;
const TEXT_FROM_PX = 26;
const STILL_PX = 4; // a press that moves less is a click
const SHADES = 7;
const LEFT = 12;
const RIGHT = 26;
const TOP = 30;
const BOTTOM = 46;

/** Columns of a point's tree, with each frame's place, and its frames by depth. */
function treeOf(chunk, point) {
  const { header } = chunk;
  const [depth, name, weight, kernel] = ['depth', 'name', 'weight', 'kernel']
    .map((key) => column(chunk, header[key]));
  const scale = point.busy_share / point.weight;
  const from = new Float64Array(depth.length);
  const wide = weight.map((w) => w * scale);
  const next = [0];
  const levels = [];
  for (let i = 0; i < depth.length; i += 1) {
    const d = depth[i];
    from[i] = next[d];
    next[d] += wide[i];
    next[d + 1] = from[i];
    (levels[d] ??= []).push(i);
  }
  return { names: header.names, n: depth.length, depth, name, kernel, from, wide, levels };
}

// A number below `SHADES` that a name always gets.
function shadeOf(name) {
  let sum = 7;
  for (let i = 0; i < name.length; i += 1) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
  return sum % SHADES;
}

export function flameFigure(model, id = 'flame') {
  const { points } = model.flame;
  const state = { point: 0, idle: true, search: '' };
  let tree = null;
  let marked = { any: false, hit: null, share: 0, frames: 0 };

  const point = () => points[state.point];
  const hasIdle = () => point().whole_machine && point().busy_share < 1;
  const ofWhat = () => (point().whole_machine ? 'all CPU time'
    : 'the CPU time of this run\'s processes');
  const end = () => (state.idle || !hasIdle() ? 1 : point().busy_share);

  // Frames whose names hold the text; their time, without counting one inside another twice.
  function find() {
    const wanted = state.search.trim().toLowerCase();
    marked = { any: wanted !== '', hit: null, share: 0, frames: 0 };
    if (!wanted || !tree) return;
    const named = tree.names.map((name) => name.toLowerCase().includes(wanted));
    marked.hit = new Uint8Array(tree.n);
    let below = Infinity;
    for (let i = 0; i < tree.n; i += 1) {
      if (tree.depth[i] <= below) below = Infinity;
      if (!named[tree.name[i]]) continue;
      marked.hit[i] = 1;
      marked.frames += 1;
      if (below === Infinity) {
        marked.share += tree.wide[i];
        below = tree.depth[i];
      }
    }
  }

  function rowsIn(viewport, width) {
    const px = width / (viewport.x[1] - viewport.x[0]);
    let rows = LEAST_ROWS;
    let seen = 0;
    for (let i = 0; i < tree.n; i += 1) {
      const to = tree.from[i] + tree.wide[i];
      if (to <= viewport.x[0] || tree.from[i] >= viewport.x[1]) continue;
      if (tree.wide[i] * px >= LEAST_PX) seen += 1;
      if (tree.wide[i] * px >= DEEP_PX) rows = Math.max(rows, tree.depth[i] + 1);
    }
    return { rows: Math.min(MOST_ROWS, rows), seen };
  }

  function paint(rect, viewport, rows, sharp, used) {
    const canvas = used ?? document.createElement('canvas');
    canvas.width = Math.round(rect.w * sharp);
    canvas.height = Math.round(rect.h * sharp);
    const context = canvas.getContext('2d');
    context.setTransform(canvas.width / rect.w, 0, 0, canvas.height / rect.h, 0, 0);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = 'middle';
    const paints = {
      user: colour('cpu-user'), kernel: colour('cpu-system'), process: colour('c8'),
      idle: colour('wait-other'), mark: colour('c5'), text: colour('fg'),
    };
    const px = rect.w / (viewport.x[1] - viewport.x[0]);
    const block = (from, wide, d, label, fill, strength) => {
      const x = Math.max(0, (from - viewport.x[0]) * px);
      const w = Math.min(rect.w, (from + wide - viewport.x[0]) * px) - x;
      if (w < LEAST_PX) return;
      context.globalAlpha = strength;
      context.fillStyle = fill;
      context.fillRect(x, d * ROW_PX, Math.max(LEAST_PX, w - 0.6), ROW_PX - 1);
      if (w < TEXT_FROM_PX) return;
      const letters = Math.floor((w - 6) / LETTER_PX);
      context.globalAlpha = 1;
      context.fillStyle = paints.text;
      context.save();
      context.beginPath();
      context.rect(x, d * ROW_PX, w - 2, ROW_PX);
      context.clip();
      context.fillText(label.length > letters ? `${label.slice(0, letters - 1)}…` : label,
        x + 3, (d + 0.5) * ROW_PX);
      context.restore();
    };
    const shades = tree.names.map(shadeOf);
    for (let i = 0; i < tree.n; i += 1) {
      const d = tree.depth[i];
      if (d >= rows || tree.from[i] >= viewport.x[1]
        || tree.from[i] + tree.wide[i] <= viewport.x[0]) continue;
      const hit = marked.hit?.[i];
      const fill = hit ? paints.mark
        : d === 0 ? paints.process : tree.kernel[i] ? paints.kernel : paints.user;
      const shade = 0.36 + (0.3 * shades[tree.name[i]]) / SHADES;
      block(tree.from[i], tree.wide[i], d, tree.names[tree.name[i]], fill,
        hit ? 0.75 : marked.any ? shade * 0.4 : shade);
    }
    if (state.idle && hasIdle()) {
      block(point().busy_share, 1 - point().busy_share, 0, 'idle', paints.idle, 0.45);
    }
    return canvas;
  }

  // The frame at a place: its number, 'idle', or null.
  function frameAt(x, y) {
    const d = Math.floor(-y);
    if (d === 0 && state.idle && hasIdle() && x >= point().busy_share) return 'idle';
    const level = tree.levels[d];
    if (!level) return null;
    let [low, high] = [0, level.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tree.from[level[middle]] <= x) low = middle;
      else high = middle - 1;
    }
    const i = level[low];
    return x >= tree.from[i] && x < tree.from[i] + tree.wide[i] ? i : null;
  }

  function parentOf(i) {
    for (let k = i - 1; k >= 0; k -= 1) if (tree.depth[k] === tree.depth[i] - 1) return k;
    return -1;
  }

  function lines(found) {
    if (found === null) return null;
    if (found === 'idle') {
      return [[share(1 - point().busy_share), 'of all CPU time: idle'],
        ['', quantity((1 - point().busy_share) * point().cpu_s, 's')]];
    }
    const i = found;
    const above = parentOf(i);
    return [
      [tree.names[tree.name[i]], tree.depth[i] === 0 ? '(process)'
        : tree.kernel[i] ? '(kernel)' : '(user)'],
      [share(tree.wide[i]), `of ${ofWhat()}, ${quantity(tree.wide[i] * point().cpu_s, 's')}`],
      ...(above >= 0 ? [[share(tree.wide[i] / tree.wide[above]), 'of its caller']] : []),
    ];
  }

  function scene(width, viewport) {
    const w = width - LEFT - RIGHT;
    const { rows, seen } = rowsIn(viewport, w);
    const rect = { x: LEFT, y: TOP, w, h: rows * ROW_PX };
    const sign = (label, name) => ({
      fixed: true, label, look: { colour: colour(name), shape: 'block', line: false },
    });
    return {
      width, height: TOP + rect.h + BOTTOM,
      counts: { total: tree.n, inView: seen, what: 'frames' },
      legend: [sign('process', 'c8'), sign('user', 'cpu-user'), sign('kernel', 'cpu-system'),
        ...(hasIdle() && state.idle ? [sign('idle', 'wait-other')] : [])],
      legendExtra: marked.any ? [h('span', { class: 'entry found' },
        `${count(marked.frames)} frames found, together ${share(marked.share)} of ${ofWhat()}`)]
        : [],
      panels: [{
        rect, layers: [], title: `${point().label} · ${count(point().samples)} samples`,
        image: (sharp, used) => paint(rect, viewport, rows, sharp, used),
        x: {
          domain: viewport.x, name: `share of ${ofWhat()}`, grid: false,
          ticks: ticks(linear, viewport.x.map((v) => v * 100), 8, '')
            .map((t) => ({ ...t, at: t.value / 100, label: `${t.label} %` })),
        },
        y: { domain: [-rows, 0], ticks: [], labels: false, grid: false },
        hover: { at: (x, y) => lines(frameAt(x, y)) },
      }],
    };
  }

  // A press on a frame that does not become a drag fits the frame to the width.
  function bindClick(fig) {
    let pressed = null;
    fig.host.addEventListener('pointerdown', (event) => {
      pressed = [event.clientX, event.clientY];
    });
    fig.host.addEventListener('click', (event) => {
      if (!pressed || !tree || !fig.scene || event.detail > 1) return;
      const moved = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]);
      const bounds = fig.host.getBoundingClientRect();
      const { rect } = fig.scene.panels[0];
      const [px, py] = [event.clientX - bounds.left - rect.x, event.clientY - bounds.top - rect.y];
      if (moved > STILL_PX || px < 0 || px > rect.w || py < 0 || py > rect.h) return;
      const [low, high] = fig.viewport.x;
      const found = frameAt(low + (px / rect.w) * (high - low), -py / ROW_PX);
      if (found === null || found === 'idle') return;
      fig.viewport.set([tree.from[found], tree.from[found] + tree.wide[found]], null);
    });
  }

  function controls(fig) {
    bindClick(fig);
    const key = uniqueId('search');
    const box = h('input', {
      id: key, type: 'search', placeholder: 'part of a name', oninput: () => {
        state.search = box.value;
        find();
        if (fig.drawn) fig.render();
      },
    });
    return [
      ...(points.length > 1 ? [select('Point', points.map((p, k) => [String(k), p.label]),
        String(state.point), (value) => { state.point = Number(value); fig.draw(); })] : []),
      ...(points.some((p) => p.whole_machine && p.busy_share < 1)
        ? [checkbox('idle time', state.idle, (value) => { state.idle = value; fig.draw(); })] : []),
      h('span', { class: 'control' }, h('label', { for: key }, 'Find a function'), box),
    ];
  }

  return {
    id, title: 'Flame graph', renderer: 'svg', axes: 'x', least: 1e-4, scene, controls,
    prepare: async () => {
      tree = treeOf(await model.chunks.load(point().chunk), point());
      find();
    },
    domain: () => ({ x: [0, end()], y: [0, 1] }),
    caption: () => `A frame is as wide as its share of ${ofWhat()}, with all that it calls below; `
      + 'neighbours stand in the order of their names, not of time. '
      + `${point().runs === 1 ? 'One run' : `All ${point().runs} counted runs`} of the point`
      + `${point().runs === 1 ? '' : ' together'}. ${count(point().left_out)} frames with less `
      + `than ${share(point().least_share, 2)} of what was not idle are not drawn: their callers `
      + 'hold their time; those too narrow for the screen appear when zoomed. Click a frame to '
      + 'fit it to the width.',
    table: () => ({
      columns: [{ label: 'function' }, { label: 'where' },
        { label: 'self', numeric: true, show: (v) => share(v) },
        { label: 'total', numeric: true, show: (v) => share(v) }],
      rows: point().functions.map(([name, kernel, own, total]) => [
        name, kernel ? 'kernel' : 'user', own, total]),
    }),
  };
}
