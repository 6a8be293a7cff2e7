// The program as it is shipped: compiled from the sources as they stand now, never an older build that happens to lie about.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

export interface Built {
  /** what `bin` names */
  readonly main: string
  readonly dist: string
  remove(): void
}

export function buildProgram(): Built {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-built-'))
  const dist = join(folder, 'dist')
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  // Types are checked elsewhere; the code that comes out is the same.
  const options = ['-p', join(root, 'tsconfig.build.json'), '--outDir', dist, '--noCheck']
  execFileSync(process.execPath, [compiler, ...options], { stdio: 'inherit' })
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return {
    main: join(dist, 'main.js'),
    dist,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
