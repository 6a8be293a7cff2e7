// Loops as WebAssembly, of which Node's own types say nothing: `scripts/wasm.ts` makes them.

declare const WebAssembly: {
  validate(code: Uint8Array): boolean
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { readonly exports: unknown }
}

/** The exports of a module, which imports nothing, from its code in base64. Undefined where this processor lacks what it wants. */
export function openWasm(base64: string): unknown {
  const code = Buffer.from(base64, 'base64')
  return WebAssembly.validate(code)
    ? new WebAssembly.Instance(new WebAssembly.Module(code)).exports
    : undefined
}
