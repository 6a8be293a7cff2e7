// The program as it is shipped: built from the current sources, never from an older build. Beside it, of the same files, the one that kills itself.
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'rolldown'
import config from '../../rolldown.config.ts'

const root = join(import.meta.dirname, '../..')

export interface Built {
  /** what `bin` names */
  readonly main: string
  /** `crashing-main.ts` */
  readonly crashing: string
  remove(): void
}

export async function buildProgram(): Promise<Built> {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-built-'))
  const dist = join(folder, 'dist')
  const { input, output, ...options } = config
  await build({
    ...options,
    cwd: root,
    input: { ...input, crashing: 'test/e2e/crashing-main.ts' },
    output: { ...output, dir: dist },
    logLevel: 'warn',
  })
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return {
    main: join(dist, 'main.js'),
    crashing: join(dist, 'crashing.js'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
