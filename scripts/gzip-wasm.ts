// Makes the WebAssembly of the two loops that pack out of their text: node scripts/gzip-wasm.ts [--check]
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import wabt from 'wabt'
import { layout } from '../src/gzip/layout.ts'

const folder = join(import.meta.dirname, '../src/gzip')
const TEXT = join(folder, 'deflate.wat')
const WASM = join(folder, 'deflate-wasm.ts')

/** Names in capitals are numbers of the layout. Throws for one that is not. */
function withNumbers(text: string): string {
  const numbers: Readonly<Record<string, number>> = layout
  return text.replace(/^(?!\s*;;).*$/gm, (line) =>
    line.replace(/\b[A-Z]{2,}(?:_[A-Z]+)*\b/g, (name) => {
      const number = numbers[name]
      if (number === undefined) throw new Error(`${TEXT} names ${name}, which layout.ts does not`)
      return String(number)
    }),
  )
}

async function made(): Promise<string> {
  const tools = await wabt()
  const module = tools.parseWat(TEXT, withNumbers(readFileSync(TEXT, 'utf8')), { bulk_memory: true })
  const code = Buffer.from(module.toBinary({}).buffer).toString('base64')
  const lines = code.match(/.{1,90}/g) ?? []
  const text = `// The WebAssembly of deflate.wat, made by scripts/gzip-wasm.ts. Not written by hand.

export const deflateWasm =
  ${lines.map((line) => `'${line}'`).join(' +\n  ')}
`
  return await format(text, { ...(await resolveConfig(WASM)), filepath: WASM })
}

const code = await made()
if (process.argv[2] !== '--check') writeFileSync(WASM, code)
else if (readFileSync(WASM, 'utf8') !== code) {
  console.error(`${WASM} is not what deflate.wat says: run node scripts/gzip-wasm.ts`)
  process.exit(1)
}
