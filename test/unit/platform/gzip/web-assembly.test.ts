// Without WebAssembly compression falls back to zlib: nothing fails, and the output is the same.
import { gunzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

declare const WebAssembly: {
  validate(code: Uint8Array): boolean
  readonly Module: new (code: Uint8Array) => object
}

beforeEach(() => vi.resetModules())
afterEach(() => vi.unstubAllGlobals())

/** As V8 refuses if a limit of address space leaves no room for a memory. */
function Roomless() {
  throw new RangeError('WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance')
}

const withoutRoom = { validate: () => true, Module: WebAssembly.Module, Instance: Roomless }
const withoutVectors = { ...withoutRoom, validate: () => false }

test.each([
  ['its memory has no room', withoutRoom],
  ['the processor lacks its instructions', withoutVectors],
])('where %s, bodies are packed by zlib', async (_, global) => {
  vi.stubGlobal('WebAssembly', global)
  const { gzip } = await import('../../../../src/platform/gzip/gzip.ts')
  const body = Buffer.from('of no matter '.repeat(100_000))
  for (let round = 0; round < 2; round++) {
    expect(gunzipSync(await gzip(body)).equals(body)).toBe(true)
  }
})

test('any other failure is reported', async () => {
  function Wrong() {
    throw new TypeError('an import is missing')
  }
  vi.stubGlobal('WebAssembly', { ...withoutRoom, Instance: Wrong })
  const { gzip } = await import('../../../../src/platform/gzip/gzip.ts')
  await expect(gzip(Buffer.from('x'))).rejects.toThrow('an import is missing')
})
