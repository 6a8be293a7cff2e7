// The demo's folder: its configuration, its journal, and the seed of its mock, so that a demo that was killed goes on where it was.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { stringify } from 'yaml'
import { ConnectorError } from '../../model/errors.ts'
import { HOUR_MS } from '../../model/time.ts'
import { disk } from '../../ops/disk.ts'

export const DEMO_KEY = 'demo-key'

/** What the mock's entries follow from: the same seed and start make the same entries again. */
interface Origins {
  readonly seed: number
  /** epoch ms */
  readonly since: number
}

export interface DemoHome {
  readonly folder: string
  readonly config: string
  readonly entries: string
  readonly origins: Origins
  /** what was here before: nothing, a demo that goes on, or one that was too old for that and is gone */
  readonly before: 'nothing' | 'resumed' | 'removed'
}

/** An older demo's mock would hold too many entries by now: it begins anew. */
export const RESUME_HOURS = 6
const ORIGINS = 'mock.json'
const CONFIG = 'auditferry.yaml'
const ENTRIES = 'entries.ndjson'
const JOURNAL = 'auditferry.db'

function originsIn(file: string): Origins | undefined {
  try {
    const { seed, since } = JSON.parse(readFileSync(file, 'utf8')) as Partial<Origins>
    return typeof seed === 'number' && typeof since === 'number' ? { seed, since } : undefined
  } catch {
    return undefined
  }
}

const folderIn = (data: string) => join(data, 'demo')
/** As the daemon has it: where the control socket is depends on the length of the whole path. */
export const journalIn = (data: string) => resolve(folderIn(data), JOURNAL)

async function writeWhole(path: string, text: string): Promise<void> {
  const file = await disk.open(path)
  try {
    await file.truncate(0)
    await file.write(Buffer.from(text), 0)
  } finally {
    await file.close()
  }
}

/** Removes what an older demo left, by name, and nothing else; the file that says so last. Throws where no demo made the folder. */
async function clear(folder: string): Promise<boolean> {
  const names = (await disk.list(folder)).map(({ name }) => name)
  if (names.length === 0) return false
  if (!names.includes(ORIGINS))
    throw new ConnectorError(
      'misconfigured',
      `${folder} holds files that no demo made (there is no ${ORIGINS}): name another folder with --data`,
    )
  const ours = names.filter((name) => name === CONFIG || name === ENTRIES || name.startsWith(JOURNAL))
  for (const name of [...ours, ORIGINS]) await disk.remove(join(folder, name))
  return true
}

/**
 * `backlogMs`: how far back a new demo's entries begin. No demo may be running in `data`. Throws ConnectorError where the folder
 * holds what no demo made, or cannot be written.
 */
export async function openHome(data: string, now: number, backlogMs: number): Promise<DemoHome> {
  const folder = folderIn(data)
  const paths = { folder, config: join(folder, CONFIG), entries: join(folder, ENTRIES) }
  const file = join(folder, ORIGINS)
  const known = originsIn(file)
  if (known && known.since <= now && now - known.since < RESUME_HOURS * HOUR_MS + backlogMs)
    return { ...paths, origins: known, before: 'resumed' }
  const removed = await clear(folder)
  const origins = { seed: now % 2 ** 31, since: now - backlogMs }
  await writeWhole(file, `${JSON.stringify(origins)}\n`)
  return { ...paths, origins, before: removed ? 'removed' : 'nothing' }
}

export async function writeConfig(home: DemoHome, baseUrl: string, listen: string): Promise<void> {
  const config = {
    journal: { path: JOURNAL, max_bytes: '256MiB' },
    workspaces: [
      { name: 'demo', base_url: baseUrl, api_key: DEMO_KEY, audit: { interval: '10s', sweep: '1h' } },
    ],
    sinks: [{ name: 'archive', type: 'file', path: ENTRIES, tap: true }],
    server: { listen },
    log: { level: 'warn' },
  }
  const head = '# Written anew by `auditferry demo` at each start: copy it to begin your own.\n'
  await writeWhole(home.config, head + stringify(config))
}
