/** Lines of JSON on standard input and output, as docs/conformance.md has them. */

import { createInterface } from "node:readline"

/** @param {object} line */
export function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

/** @returns {AsyncGenerator<any>} */
export async function* told() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line)
}

/** @param {string} [hex] */
export const bytes = (hex) => Buffer.from(hex ?? "", "hex")
