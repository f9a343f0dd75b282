// Building elements. Foreign text (names, reasons, logs) only ever becomes a text node or
// an attribute value set through the DOM: there is no way from here to markup.

/** An HTML element: h('p', {class: 'note'}, 'text', child). */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return element;
}

let counter = 0;
/** An id that no other element of the page has. */
export const uniqueId = (stem) => `${stem}-${(counter += 1)}`;

/** A field with its label; `first`: the field stands before it (check boxes). */
export function labelled(label, field, first = false) {
  field.id = uniqueId('field');
  const parts = [h('label', { for: field.id }, label), field];
  return h('span', { class: 'control' }, first ? parts.reverse() : parts);
}

/** A labelled drop-down list of texts. */
export function select(label, values, value, onchange) {
  const list = h(
    'select',
    { onchange: () => onchange(list.value) },
    values.map((text) => h('option', { value: text }, text)),
  );
  list.value = value;
  return labelled(label, list);
}

/** A plain button. */
export const button = (label, onclick, properties = {}) =>
  h('button', { type: 'button', onclick, ...properties }, label);
