// Makes the WebAssembly of each loop that JavaScript takes much longer for out of its text: node scripts/wasm.ts [--check]
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import wabt from 'wabt'
import { layout } from '../src/platform/gzip/layout.ts'

interface Loops {
  /** without its ending, which is .wat; beside it stands what is made */
  readonly path: string
  /** what its text’s names in capitals stand for */
  readonly numbers: Readonly<Record<string, number>>
}

const all: readonly Loops[] = [{ path: 'src/platform/gzip/deflate', numbers: layout }]

/** Throws for a name that stands for nothing. */
function withNumbers(text: string, { path, numbers }: Loops): string {
  return text.replace(/^(?!\s*;;).*$/gm, (line) =>
    line.replace(/\b[A-Z]{2,}(?:_[A-Z]+)*\b/g, (name) => {
      const number = numbers[name]
      if (number === undefined) throw new Error(`${path}.wat names ${name}, which is not in its layout`)
      return String(number)
    }),
  )
}

async function made(loops: Loops, wat: string, target: string): Promise<string> {
  const tools = await wabt()
  const name = loops.path.replace(/.*\//, '')
  const module = tools.parseWat(wat, withNumbers(readFileSync(wat, 'utf8'), loops), {
    ...{ bulk_memory: true, simd: true },
  })
  const code = Buffer.from(module.toBinary({}).buffer).toString('base64')
  const lines = code.match(/.{1,90}/g) ?? []
  const constant = `${name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())}Wasm`
  const text = `// The WebAssembly of ${name}.wat, made by scripts/wasm.ts. Not written by hand.

export const ${constant} =
  ${lines.map((line) => `'${line}'`).join(' +\n  ')}
`
  return await format(text, { ...(await resolveConfig(target)), filepath: target })
}

for (const loops of all) {
  const path = join(import.meta.dirname, '..', loops.path)
  const target = `${path}-wasm.ts`
  const code = await made(loops, `${path}.wat`, target)
  if (process.argv[2] !== '--check') writeFileSync(target, code)
  else if (readFileSync(target, 'utf8') !== code) {
    console.error(`${target} is not what ${loops.path}.wat says: run node scripts/wasm.ts`)
    process.exitCode = 1
  }
}
