// A scene (panels with layers, all in positions) drawn by ECharts: on the page with the SVG
// or the canvas renderer, and as an SVG string for export and paper. ECharts only draws;
// scales, ticks, zooming and tooltips are ours, so that every figure behaves the same.
//
// scene: {width, height, panels: [{rect: {x, y, w, h}, title, x: axis, y: axis, layers,
//         note, image(sharp, used), imageRect}]};
//         axis: {domain, ticks, name, labels: bool, grid: bool};
//         note: a second, lighter line under the title; imageRect: where the image lies, if it is
//         not the panel's rect

import { init } from './echarts.js';
import { seriesOf } from './layers.js';
import { colour } from './theme.js';

// Single quotes: ECharts writes attributes of its SVG text without escaping them.
const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const SHARP_MOST = 2; // canvas pixels a page pixel

function axisOption(axis, index, vertical) {
  const values = axis.ticks.map((t) => t.at);
  const names = new Map(axis.ticks.map((t) => [t.at, t.label]));
  const nearest = (value) => {
    if (names.has(value)) return names.get(value);
    const tick = axis.ticks.find((t) => Math.abs(t.at - value) < 1e-9 * (1 + Math.abs(value)));
    return tick ? tick.label : '';
  };
  return {
    gridIndex: index, type: 'value', min: axis.domain[0], max: axis.domain[1],
    name: axis.name ?? '', nameLocation: 'middle', nameGap: axis.nameGap ?? (vertical ? 52 : 26),
    nameTextStyle: { color: colour('muted'), fontSize: 12 },
    axisLine: { show: false, onZero: false },
    axisTick: {
      show: axis.labels !== false, customValues: values, length: 4,
      lineStyle: { color: colour('frame') },
    },
    axisLabel: {
      show: axis.labels !== false, customValues: values, formatter: nearest, fontSize: 11,
      color: colour('muted'), hideOverlap: true,
      ...(axis.labelWidth ? { width: axis.labelWidth, overflow: 'truncate' } : {}),
    },
    splitLine: {
      show: axis.grid !== false,
      lineStyle: { color: colour('grid') },
    },
  };
}

// "{" and "}" mean style to ECharts: foreign names lose them.
const plain = (text) => String(text).replaceAll(/[{}|\n]/g, ' ');

// A title, and behind it the panel's legend ({mark, text, colour}), so that a figure that is
// saved or printed still says what is what.
function titleOf(panel, x, y, w) {
  const rich = { t: { fontSize: 13, fontWeight: 600, color: colour('fg'), fontFamily: FONT } };
  const parts = [`{t|${plain(panel.title)}}`];
  (panel.marks ?? []).forEach((mark, k) => {
    rich[`m${k}`] = {
      fontSize: mark.block ? 13 : 14, fontWeight: 700, color: mark.colour, fontFamily: FONT,
    };
    rich.n = { fontSize: 11.5, color: colour('muted'), fontFamily: FONT };
    const sign = mark.block ? '■' : mark.dashed ? '┅' : '━';
    parts.push(`{n|   }{m${k}|${sign}}{n| ${plain(mark.text)}}`);
  });
  if (panel.note) {
    rich.t.lineHeight = 17;
    rich.s = {
      fontSize: 12, fontWeight: 400, color: colour('muted'), fontFamily: FONT, lineHeight: 16,
    };
    parts.push(`\n{s|${plain(panel.note)}}`);
  }
  return {
    text: parts.join(''), left: x, top: y - (panel.titleRise ?? 22), padding: 0,
    textStyle: { rich, width: w, overflow: 'truncate', fontFamily: FONT },
  };
}

/** The ECharts option of a scene. */
export function optionOf(scene) {
  const option = {
    animation: false, backgroundColor: 'transparent', textStyle: { fontFamily: FONT },
    grid: [], xAxis: [], yAxis: [], series: [], title: [],
  };
  scene.panels.forEach((panel, i) => {
    const { x, y, w, h } = panel.rect;
    option.grid.push({
      left: x, top: y, width: w, height: h, containLabel: false, outerBoundsMode: 'none',
      show: true, borderColor: colour('frame'), borderWidth: panel.frame === false ? 0 : 1,
      backgroundColor: 'transparent', z: 0,
    });
    option.xAxis.push(axisOption(panel.x, i, false));
    option.yAxis.push(axisOption(panel.y, i, true));
    if (panel.title) option.title.push(titleOf(panel, x, y, w));
    for (const layer of panel.layers) option.series.push(...seriesOf(layer, i));
    if (!panel.layers.length) {
      option.series.push({ type: 'scatter', data: [], xAxisIndex: i, yAxisIndex: i });
    }
  });
  return option;
}

export class Plot {
  constructor(host, renderer) {
    this.host = host;
    this.renderer = renderer;
    this.chart = null;
    this.canvases = [];
  }

  draw(scene) {
    this.host.style.height = `${scene.height}px`;
    if (!this.chart) {
      this.surface = document.createElement('div');
      this.surface.className = 'surface';
      this.host.append(this.surface);
      this.chart = init(this.surface, null,
        { renderer: this.renderer, width: scene.width, height: scene.height });
    } else {
      this.chart.resize({ width: scene.width, height: scene.height });
    }
    this.drawImages(scene);
    this.chart.setOption(optionOf(scene), { notMerge: true, lazyUpdate: false });
    this.chart.getZr().flush();
  }

  // Panels with an `image` (heat maps): a canvas under the axes. It may be the one before,
  // painted anew: `image` is offered it.
  drawImages(scene) {
    const before = this.canvases;
    this.canvases = [];
    for (const panel of scene.panels) {
      if (!panel.image) continue;
      const used = before.shift();
      const canvas = panel.image(Math.min(SHARP_MOST, devicePixelRatio || 1), used);
      if (used && used !== canvas) used.remove();
      canvas.className = 'heat';
      const { x, y, w, h } = panel.imageRect ?? panel.rect;
      Object.assign(canvas.style,
        { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
      if (canvas !== used) this.host.prepend(canvas);
      this.canvases.push(canvas);
    }
    for (const canvas of before) canvas.remove();
  }

  dispose() { this.chart?.dispose(); }
}

/** The same scene as an SVG document (text is escaped by the serialiser). */
export function svgOf(scene, background) {
  const chart = init(null, null,
    { renderer: 'svg', ssr: true, width: scene.width, height: scene.height });
  chart.setOption(optionOf(scene));
  const text = chart.renderToSVGString();
  chart.dispose();
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml');
  if (parsed.querySelector('parsererror')) throw new Error('the drawing is not valid SVG');
  const svg = parsed.documentElement;
  svg.setAttribute('viewBox', `0 0 ${scene.width} ${scene.height}`);
  const make = (tag, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const first = svg.firstChild;
  if (background) {
    svg.insertBefore(make('rect', {
      x: 0, y: 0, width: scene.width, height: scene.height, fill: background,
    }), first);
  }
  for (const panel of scene.panels) {
    if (!panel.image) continue;
    const { x, y, w, h } = panel.imageRect ?? panel.rect;
    svg.insertBefore(make('image', {
      href: panel.image(SHARP_MOST).toDataURL(), x, y, width: w, height: h,
      preserveAspectRatio: 'none',
      style: 'image-rendering:pixelated',
    }), first);
  }
  return svg;
}
