// The demo's folder: its configuration, its journal, and the seed of its mock, so that a demo that was killed goes on where it was.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { makeFolders } from '../model/folders.ts'

export const DEMO_KEY = 'demo-key'

/** What the mock's entries follow from: the same seed and start make the same entries again. */
export interface Origins {
  readonly seed: number
  /** epoch ms */
  readonly since: number
}

export interface DemoHome {
  readonly folder: string
  readonly config: string
  readonly entries: string
  readonly origins: Origins
  /** an earlier demo was here, and this one goes on from it */
  readonly resumed: boolean
}

/** An older demo's mock would hold too many entries by now: it begins anew. */
const RESUME_MS = 6 * 3_600_000

function originsIn(file: string): Origins | undefined {
  try {
    const { seed, since } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Origins>
    return typeof seed === 'number' && typeof since === 'number' ? { seed, since } : undefined
  } catch {
    return undefined
  }
}

/** `backlogMs`: how far back a new demo's entries begin. No demo may be running in `data`. */
export async function openHome(data: string, now: number, backlogMs: number): Promise<DemoHome> {
  const folder = join(data, 'demo')
  const paths = { folder, config: join(folder, 'auditferry.yaml'), entries: join(folder, 'entries.ndjson') }
  const file = join(folder, 'mock.json')
  const known = originsIn(file)
  if (known && known.since <= now && now - known.since < RESUME_MS + backlogMs)
    return { ...paths, origins: known, resumed: true }
  rmSync(folder, { recursive: true, force: true })
  await makeFolders(folder, { stat, mkdir })
  const origins = { seed: now % 2 ** 31, since: now - backlogMs }
  writeFileSync(file, `${JSON.stringify(origins)}\n`, { mode: 0o600 })
  return { ...paths, origins, resumed: false }
}

/** What stands for a dollar sign in a configuration. */
const literal = (text: string) => text.replaceAll('$', '$$$$')

export function writeConfig(home: DemoHome, baseUrl: string, listen: string): void {
  const config = {
    journal: { path: literal(join(home.folder, 'auditferry.db')), max_bytes: '256MiB' },
    workspaces: [
      { name: 'demo', base_url: baseUrl, api_key: DEMO_KEY, audit: { interval: '3s', sweep: '1h' } },
    ],
    sinks: [{ name: 'archive', type: 'file', path: literal(home.entries), tap: true }],
    server: { listen },
    log: { level: 'warn' },
  }
  const head = '# Written by `auditferry demo` at each start; a place to begin your own.\n'
  writeFileSync(home.config, head + stringify(config), { mode: 0o600 })
}
