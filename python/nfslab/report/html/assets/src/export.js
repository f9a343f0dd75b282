// Saving a figure as SVG or PNG: the scene in view, with its title, on the page's colours.

import { svgOf } from './plot.js';
import { colour } from './theme.js';

const PNG_SCALE = 2;

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function svgText(scene) {
  const svg = svgOf(scene, colour('bg'));
  svg.setAttribute('width', scene.width);
  svg.setAttribute('height', scene.height);
  return new XMLSerializer().serializeToString(svg);
}

export function saveSvg(scene, name) {
  save(new Blob([svgText(scene)], { type: 'image/svg+xml' }), `${name}.svg`);
}

export async function pngBlob(scene) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(scene))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = scene.width * PNG_SCALE;
  canvas.height = scene.height * PNG_SCALE;
  const context = canvas.getContext('2d');
  context.scale(PNG_SCALE, PNG_SCALE);
  context.drawImage(image, 0, 0, scene.width, scene.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, 'image/png'); });
}

export async function savePng(scene, name) { save(await pngBlob(scene), `${name}.png`); }
