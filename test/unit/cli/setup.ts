// A configuration, a journal with dead letters and
// quarantine, and a command context that records its output.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openRegistered } from '../../fakes/registered.ts'
import type { Journal } from '../../../src/contracts/journal.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { logOf, part, spec } from '../../contract/journal-parts.ts'
import { openContext } from './context.ts'

export function openSetup() {
  const folder = mkdtempSync(join(tmpdir(), 'commands-'))
  const config = join(folder, 'a.yaml')
  const path = join(folder, 'a.db')
  writeFileSync(
    config,
    `journal: { path: ${path} }
workspaces: [{ name: acme, base_url: "https://a.example.com", api_key: "\${env:NOT_SET_HERE}", audit: {} }]
sinks: [{ name: siem, type: file, path: ${folder}/a.out }, { name: archive, type: file, path: ${folder}/b.out }]
server: { listen: 127.0.0.1:1 }
`,
  )
  const { context, stop, heard } = openContext()
  return {
    ...{ folder, config, path, context, stop, heard },
    openJournal: (sinks = ['siem', 'archive'], keepDeliveredBytes = 0) =>
      openRegistered({
        ...{ path, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes, sinks },
        ...{ clock: systemClock, log: logOf(), ballastBytes: 0 },
      }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Four entries, of which siem refused the second and third, and one malformed element. */
export async function fill(journal: Journal): Promise<void> {
  const refused = { body: 'planted-content' }
  const bytes = Buffer.from('{"planted":"\u001b"}')
  const quarantined = [{ reason: 'no_id', bytes, totalBytes: 14, sha256: 'ab'.repeat(32) }] as const
  await journal.append(part([spec(1), spec(2, refused), spec(3, refused), spec(4)], { quarantined }))
  const rejected = [2, 3].map((seq) => ({ seq, code: 'refused', reason: 'Splunk said: \u001b[31mno' }))
  await journal.ack('siem', { first: 1, through: 4, rejected })
}
