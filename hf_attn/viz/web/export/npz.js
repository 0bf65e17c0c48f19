/* Numbers as NumPy reads them: npz({name: array, …}) → Blob of an .npz file (a zip of .npy files, not
   compressed). An array is a list, of lists to any depth, of numbers (float32 there) or of words (str). */
import { range } from "../core/format.js";

const TABLE = range(256).map(n => range(8).reduce(c => (c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1), n));
const crc = bytes => ~bytes.reduce((c, byte) => TABLE[(c ^ byte) & 255] ^ (c >>> 8), -1) >>> 0;

const shapeOf = array => (Array.isArray(array) ? [array.length, ...(array.length ? shapeOf(array[0]) : [])] : []);
const pack = (values, width, put) => {
  const view = new DataView(new ArrayBuffer(values.length * width));
  values.forEach((value, i) => put(view, i * width, value));
  return new Uint8Array(view.buffer);
};

/** One array as the bytes of an .npy file, format 1.0. */
const npy = array => {
  const flat = [array].flat(Infinity);
  const isText = typeof flat[0] === "string";
  const letters = isText ? flat.map(word => [...word]) : [];
  const longest = Math.max(1, ...letters.map(word => word.length));
  const put = (view, at, word) => word.forEach((sign, i) => view.setUint32(at + 4 * i, sign.codePointAt(0), true));
  const data = isText
    ? pack(letters, 4 * longest, put)
    : pack(flat, 4, (view, at, number) => view.setFloat32(at, number, true));
  const shape = shapeOf(array)
    .map(size => `${size},`)
    .join(" ");
  const said = `{'descr': '${isText ? `<U${longest}` : "<f4"}', 'fortran_order': False, 'shape': (${shape}), }`;
  const header = said.padEnd(64 * Math.ceil((said.length + 11) / 64) - 11) + "\n"; // data begin at a multiple of 64
  const start = new Uint8Array([
    0x93,
    ...new TextEncoder().encode("NUMPY"),
    1,
    0,
    header.length & 255,
    header.length >> 8,
  ]);
  return [start, new TextEncoder().encode(header), data];
};

const joined = parts => {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};
/** Whole numbers, little-endian: [[value, bytes], …]. */
const fields = pairs =>
  new Uint8Array(pairs.flatMap(([value, size]) => range(size).map(i => Math.floor(value / 256 ** i) % 256)));

const DAY = (1 << 5) | 1; // 1 January 1980: the same arrays give the same bytes

const npz = arrays => {
  const [files, index] = [[], []];
  let at = 0;
  for (const [name, array] of Object.entries(arrays)) {
    const content = joined(npy(array));
    const called = new TextEncoder().encode(`${name}.npy`);
    const { length } = content;
    // version 2.0, no flags, stored, time, day, checksum, sizes, length of the name, nothing more
    const same = [
      [20, 2],
      [0, 2],
      [0, 2],
      [0, 2],
      [DAY, 2],
      [crc(content), 4],
      [length, 4],
      [length, 4],
      [called.length, 2],
      [0, 2],
    ];
    const local = fields([[0x04034b50, 4], ...same]);
    files.push(local, called, content);
    index.push(fields([[0x02014b50, 4], [20, 2], ...same, [0, 2], [0, 2], [0, 2], [0, 4], [at, 4]]), called);
    at += local.length + called.length + length;
  }
  const many = Object.keys(arrays).length;
  const listed = index.reduce((length, part) => length + part.length, 0);
  const end = fields([
    [0x06054b50, 4],
    [0, 2],
    [0, 2],
    [many, 2],
    [many, 2],
    [listed, 4],
    [at, 4],
    [0, 2],
  ]);
  return new Blob([...files, ...index, end], { type: "application/zip" });
};

export { npz };
