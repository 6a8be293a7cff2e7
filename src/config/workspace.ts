// One workspace of the configuration: where its API is, the key, what to read and how often.
import { z } from 'zod'
import type { SourceName } from '../model/source.ts'
import { DAY_MS } from '../model/time.ts'
import { duration, secret } from '../model/units.ts'
import { canary } from './canary.ts'
import { baseUrl, exposedFault, interval, isExposed, isRecord, partName, start, typeGlobs } from './fields.ts'
import { history } from './history.ts'
import { vault } from './vault.ts'

const audit = () =>
  z.strictObject({
    activity: z
      .enum(['high', 'medium', 'low', 'auto'])
      .default('medium')
      .describe(
        'How busy the workspace is: high reads every 5 min, medium every 15 min, low every hour, auto follows the traffic.',
      ),
    interval: interval().optional().describe("How often to read, over the activity's own."),
    start: start()
      .prefault('earliest')
      .describe(
        'Where to begin when nothing was read yet: earliest, latest, a span back from now, or a time (UTC where it names no zone).',
      ),
    types: typeGlobs().describe(
      "Patterns over an entry's type; the last that matches decides, ! takes away again. Of a type over 16 KiB its beginning counts. Other entries are counted and not kept.",
    ),
    sweep: duration()
      .prefault('24h')
      .describe(
        'The trailing span that is read again for entries which become visible late, as far as `journal.keep_keys` goes; 0s turns it off.',
      ),
  })

const perMinute = (limit: number, area: string) =>
  z.int().min(1).default(limit).describe(`Requests a minute to the ${area} API.`)

const rateLimits = () =>
  z.strictObject({
    audit: perMinute(60, 'audit log'),
    history: perMinute(60, 'history'),
    vault: perMinute(10, 'vault'),
    assistant: perMinute(20, 'assistant'),
  })

export const workspace = z
  .strictObject({
    name: partName().describe(
      'Name of the workspace in metrics, logs and lines; unique. Small letters, digits, hyphens. What was read hangs on it: under another name it is a new workspace, read and sent from `start` on.',
    ),
    base_url: baseUrl().describe("Address of the workspace's API, such as https://api.example.com."),
    api_key: secret().describe('API key, best as ${file:/run/secrets/auditferry/api-key}.'),
    audit: audit().optional().describe('The audit log. Present is on; {} takes the defaults.'),
    history: history().optional().describe('Usage and query history. Present is on; {} takes the defaults.'),
    vault: vault()
      .optional()
      .describe('The vault: its projects and with whom they are shared. On where projects is true.'),
    canary: canary()
      .optional()
      .describe('A prompt of our own now and then, followed from the API to each sink. Not of `run --once`.'),
    rate_limits: rateLimits()
      .prefault({})
      .describe(
        'Requests a minute for this key; the documented limits. Workspaces with one key on one host share them, and the least holds. They go by the key, over restarts, renames and rotations; a new key counts with the one before it for two minutes.',
      ),
    expected_user_agents: z
      .array(z.string().min(1))
      .default([])
      .describe(
        "Patterns over the whole User-Agent of other known tools under the same key's user, as in `types`, such as `compliance-export/*`; their fetches are no finding.",
      ),
    allow_insecure: z.boolean().default(false).describe('Allow plain http to another machine.'),
  })
  .superRefine(
    (value: unknown, context) => {
      if (!isRecord(value) || value['allow_insecure'] === true) return
      const url = value['base_url']
      if (typeof url === 'string' && isExposed(url))
        context.addIssue({ code: 'custom', path: ['base_url'], message: exposedFault })
    },
    // Told even while another field of the workspace is at fault: all faults at once.
    { when: () => true },
  )
  .describe('One workspace: its API, its key and what to read.')

/** Read again after their keys are forgotten, entries would count as new. The default goes as far back as there are keys. */
export function sweepFault(sweepMs: unknown, keepKeysMs: unknown): string | undefined {
  if (typeof sweepMs !== 'number' || typeof keepKeysMs !== 'number') return undefined
  if (sweepMs <= keepKeysMs || sweepMs === DAY_MS) return undefined
  return 'is longer than journal.keep_keys: entries read again would count as new and be sent twice; shorten it or lengthen keep_keys'
}

export type WorkspaceConfig = z.output<typeof workspace>

/** The sources that are switched on. */
export function sourcesOf({ audit, history, vault }: WorkspaceConfig): readonly SourceName[] {
  const on: readonly (readonly [SourceName, boolean])[] = [
    ['audit', Boolean(audit)],
    ['history.usage', Boolean(history?.usage)],
    ['history.query', Boolean(history?.query)],
    ['vault.projects', Boolean(vault?.projects)],
  ]
  return on.filter(([, isOn]) => isOn).map(([name]) => name)
}
