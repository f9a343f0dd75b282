// What the report carries: <script type="text/plain" id="data-NAME"> holds base64 of raw deflate.
// A *chunk* inflates to: u32 length of its JSON header, the header, columns. In the header stand
// the fields of a drawing (nfslab.display.figures); arrays are lists, or say where their column
// lies and how it is coded (columns.py).

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(name) {
  const element = document.getElementById(`data-${name}`);
  if (!element) throw new Error(`the report holds no data named ${name}`);
  const stream = new Blob([fromBase64(element.textContent.trim())])
    .stream()
    .pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function loadJson(name) {
  return JSON.parse(new TextDecoder().decode(await inflate(name)));
}

// Bytes are stored plane by plane (all low bytes, then all next bytes): packs better.
function join(bytes, width, n) {
  const out = new Uint8Array(width * n);
  for (let plane = 0; plane < width; plane += 1) {
    const place = LITTLE ? plane : width - 1 - plane;
    for (let i = 0; i < n; i += 1) out[i * width + place] = bytes[plane * n + i];
  }
  return out;
}

const KINDS = {
  u8: [1, Uint8Array, 0xff],
  u16: [2, Uint16Array, 0xffff],
  u32: [4, Uint32Array, 0xffffffff],
  f32: [4, Float32Array, NaN],
  f64: [8, Float64Array, NaN],
};

/** A column as Float64Array; missing values are NaN. */
function column(chunk, spec) {
  const [width, Type, missing] = KINDS[spec.kind];
  const bytes = chunk.bytes.subarray(spec.offset, spec.offset + width * spec.n);
  const whole = new Type(join(bytes, width, spec.n).buffer);
  const out = new Float64Array(spec.n);
  for (let i = 0; i < spec.n; i += 1) {
    out[i] = spec.gaps && whole[i] === missing ? NaN : whole[i] * spec.step + spec.base;
  }
  return out;
}

// Columns take the place of their descriptions; null in a list of numbers is NaN.
function revived(value, chunk) {
  if (Array.isArray(value)) {
    if (value.some((v) => typeof v === 'number')) return Float64Array.from(value, (v) => v ?? NaN);
    return value.map((item) => revived(item, chunk));
  }
  if (value === null || typeof value !== 'object') return value;
  if ('offset' in value && 'step' in value) return column(chunk, value);
  if ('texts' in value && 'codes' in value) {
    return Array.from(column(chunk, value.codes), (code) => value.texts[code]);
  }
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, revived(v, chunk)]));
}

/** The drawing of a view, with its arrays. */
export async function loadDrawing(name) {
  const all = await inflate(name);
  const size = new DataView(all.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + size)));
  return revived(header, { bytes: all.subarray(4 + size) });
}
