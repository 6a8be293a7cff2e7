// Loops as WebAssembly, of which Node's own types say nothing: `scripts/wasm.ts` makes them.

declare const WebAssembly: {
  validate(code: Uint8Array): boolean
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { readonly exports: unknown }
}

/**
 * The exports of a module, which imports nothing, from its code in base64. Undefined where they cannot be had: the processor
 * lacks what the code wants, or a limit of address space does not hold the gigabytes that its memory reserves.
 */
export function openWasm(base64: string): unknown {
  const code = Buffer.from(base64, 'base64')
  if (!WebAssembly.validate(code)) return undefined
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(code)).exports
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
