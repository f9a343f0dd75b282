// Building elements. Foreign text (names, reasons, logs) only ever becomes a text node or
// an attribute value set through the DOM: there is no way from here to markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'dataset') Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An HTML element: h('p', {class: 'note'}, 'text', child). */
export const h = (tag, properties, ...children) =>
  fill(document.createElement(tag), properties, children);

/** An SVG element. */
export const s = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

let counter = 0;
/** An id that no other element of the page has. */
export const uniqueId = (stem) => `${stem}-${(counter += 1)}`;

/** A labelled drop-down list; `options` are [value, label] pairs. */
export function select(label, options, value, onchange) {
  const id = uniqueId('select');
  const list = h(
    'select',
    { id, onchange: () => onchange(list.value) },
    options.map(([key, text]) => h('option', { value: key, selected: key === value }, text)),
  );
  list.value = value;
  return h('span', { class: 'control' }, h('label', { for: id }, label), list);
}

/** A labelled check box. */
export function checkbox(label, checked, onchange) {
  const id = uniqueId('check');
  const box = h('input', { id, type: 'checkbox', checked, onchange: () => onchange(box.checked) });
  return h('span', { class: 'control' }, box, h('label', { for: id }, label));
}

/** A plain button. */
export const button = (label, onclick, properties = {}) =>
  h('button', { type: 'button', onclick, ...properties }, label);
