/* Packed maps, as `encode_maps` in hf_attn/viz/web makes them: little-endian uint16, weight = v / 65535. */
import { mean, range } from "./format.js";

const unpack = (base64, shape) => {
  // nested arrays of the given shape, or null
  if (!base64 || !shape || shape.some(n => !n)) return null;
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  if (bytes.length !== 2 * shape.reduce((a, b) => a * b, 1)) return null;
  let at = 0;
  const read = depth =>
    range(shape[depth]).map(() => {
      if (depth + 1 < shape.length) return read(depth + 1);
      at += 2;
      return view.getUint16(at - 2, true) / 65535;
    });
  return read(0);
};
const meanOf = maps => maps[0].map((row, r) => row.map((_, c) => mean(maps.map(m => m[r][c]))));

export { meanOf, unpack };
