// Decoding what the report carries: <script type="text/plain" id="data-NAME"> holds
// base64 of raw deflate. A *chunk* inflates to: u32 length of its JSON header, the header,
// then columns. A column says where it lies and how it is coded (see payload.py).

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflate(id) {
  const element = document.getElementById(`data-${id}`);
  if (!element) throw new Error(`the report holds no data named ${id}`);
  const stream = new Blob([fromBase64(element.textContent.trim())]).stream()
    .pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The payload's main part: JSON. */
export async function loadJson(id) {
  return JSON.parse(new TextDecoder().decode(await inflate(id)));
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
  u8: [1, Uint8Array, 0xff], u16: [2, Uint16Array, 0xffff], u32: [4, Uint32Array, 0xffffffff],
  f64: [8, Float64Array, NaN],
};

/** A column as Float64Array; missing values are NaN. */
export function column(chunk, spec) {
  const [width, Type, missing] = KINDS[spec.kind];
  const bytes = chunk.bytes.subarray(spec.offset, spec.offset + width * spec.n);
  const whole = new Type(join(bytes, width, spec.n).buffer);
  const out = new Float64Array(spec.n);
  for (let i = 0; i < spec.n; i += 1) {
    out[i] = spec.gaps && whole[i] === missing ? NaN : whole[i] * spec.step + spec.base;
  }
  return out;
}

export class Chunks {
  constructor() { this.loaded = new Map(); }

  /** {header, bytes} of a chunk, inflated once. */
  load(id) {
    if (!this.loaded.has(id)) {
      this.loaded.set(id, inflate(id).then((all) => {
        const size = new DataView(all.buffer).getUint32(0, true);
        const header = JSON.parse(new TextDecoder().decode(all.subarray(4, 4 + size)));
        return { header, bytes: all.subarray(4 + size) };
      }));
    }
    return this.loaded.get(id);
  }
}
