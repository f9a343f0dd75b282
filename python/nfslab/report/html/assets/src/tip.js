// Tooltips: lines of [value, what] as elements, so that text of others never becomes markup.

import { h } from './dom.js';
import { colour } from './theme.js';

/** `lines`: [value, what, colour]; a line without a value is a remark. */
export const tipLines = (lines) =>
  h(
    'div',
    { class: 'tip-lines' },
    lines.map(([value, what, shade]) => {
      const line = h('div', {}, h('b', {}, value), value && what ? ' ' : '', what);
      if (shade) {
        const chip = h('i', { class: 'chip' });
        chip.style.color = shade;
        line.prepend(chip, ' ');
      }
      return line;
    }),
  );

export const tooltip = (more) => ({
  confine: true,
  appendTo: undefined,
  backgroundColor: colour('bg'),
  borderColor: colour('frame'),
  textStyle: { color: colour('fg'), fontSize: 12 },
  extraCssText: 'max-width:420px;white-space:normal',
  transitionDuration: 0,
  ...more,
});
