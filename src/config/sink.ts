// One sink: keys that every sink has, joined with the options of each kind.
import { z } from 'zod'
import { formatNames } from '../formats/index.ts'
import type { NamedFile } from '../contracts/sink-kind.ts'
import { DAY_MS } from '../core/time.ts'
import { duration, eachOnce, twiceFault } from '../core/units.ts'
import { type AnyKind, kindOf, sinkKinds, type SinkType } from '../sinks/index.ts'
import { exposedFault, isExposed, isRecord, partName, sizeFrom, typeGlobs } from './fields.ts'
import { deny, policyFiles, redact } from './policy.ts'

/** Sources that a sink may take. */
const sinkSources = ['audit', 'history.usage', 'history.query', 'vault.projects'] as const

/** The sink's share of the memory budget may limit batches further. */
const MOST_BATCH_BYTES = 16 * 2 ** 20

const batch = () =>
  z.strictObject({
    max_entries: z.int().min(1).max(100_000).default(1000).describe('Entries in a batch at most.'),
    max_bytes: sizeFrom(1, '1B')
      .refine((bytes) => bytes <= MOST_BATCH_BYTES, 'expected at most 16MiB')
      .prefault('1MiB')
      .describe(
        'Bytes of entries in a batch at most, up to 8 MiB divided by the number of sinks; a larger entry has its own batch.',
      ),
    linger: duration()
      .refine((ms) => ms <= DAY_MS, 'expected at most 1d: entries would wait that long')
      .prefault('1s')
      .describe('How long a batch waits to fill, at most `1d`.'),
  })

const common = {
  name: partName().describe(
    'Unique name in metrics, logs and the status page: small letters, digits, hyphens. A renamed sink is a new one and gets everything that the journal keeps.',
  ),
  sources: z
    .array(z.enum(sinkSources))
    .min(1)
    .refine(eachOnce, twiceFault)
    .default(['audit', 'history.usage', 'vault.projects'])
    .describe('What is sent; history.query must be named to be sent.'),
  types: typeGlobs().describe(
    "Patterns over an entry's type; the last that matches decides, ! takes away again. Of a type over 16 KiB its beginning counts.",
  ),
  format: z
    .enum(formatNames)
    .default('raw')
    .describe(
      'raw: the entry as the API sent it; envelope: the same in an object with its origin; cef, leef: Common Event Format, Log Event Extended Format.',
    ),
  batch: batch().prefault({}).describe('How large a batch grows and how long it waits.'),
  allow_insecure: z.boolean().default(false).describe('Allow plain http to another machine.'),
  redact: redact()
    .optional()
    .describe('Top-level fields that are changed before anything is sent; docs/content-policy.md.'),
  deny: deny()
    .optional()
    .describe(
      'Entries that this sink never gets: by the name of a top-level field, a list of its values; docs/content-policy.md.',
    ),
  tap: z
    .boolean()
    .default(false)
    .describe('Allow `auditferry tap` to show live samples of what this sink is sent: content.'),
}

/** URLs of a sink; empty while its options are invalid. */
function urlsOf(kind: AnyKind, options: Record<string, unknown>): readonly string[] {
  try {
    return kind.urls?.(options).filter((url) => typeof url === 'string') ?? []
  } catch {
    return []
  }
}

/** Path of a URL in the sink's options: `url`, or `urls` and an index. */
function placeOf(options: Readonly<Record<string, unknown>>, url: string): PropertyKey[] {
  for (const [key, value] of Object.entries(options)) {
    if (value === url) return [key]
    const index = Array.isArray(value) ? value.indexOf(url) : -1
    if (index >= 0) return [key, index]
  }
  return []
}

function sinkOf(type: string, kind: AnyKind) {
  const described = z.literal(type).describe('Kind of receiver.')
  return kind.options.safeExtend({ type: described, ...common }).superRefine(
    (value: unknown, context) => {
      if (!isRecord(value) || value['allow_insecure'] === true) return
      for (const url of urlsOf(kind, value))
        if (isExposed(url))
          context.addIssue({ code: 'custom', path: placeOf(value, url), message: exposedFault })
    },
    { when: () => true },
  )
}

type Kinds = typeof sinkKinds
type CommonKeys = z.output<z.ZodObject<typeof common>>

/** One sink, by type. */
export type SinkConfig = {
  [Type in SinkType]: z.output<Kinds[Type]['options']> & CommonKeys & { readonly type: Type }
}[SinkType]

const [first, ...others] = Object.entries(sinkKinds).map(([type, kind]) => sinkOf(type, kind))
if (!first) throw new Error('unknown type of sink')

/** The loop above loses the types; a test parses one sink of each kind. */
export const sink = z
  .discriminatedUnion('type', [first, ...others])
  .describe('One receiver.') as unknown as z.ZodType<SinkConfig>

/** The longest time until a sink sends its entries, ms. */
export function sinkLingerMs(config: SinkConfig): number {
  return kindOf(config.type).maxAgeMs?.(config) ?? config.batch.linger
}

/** Files of a sink: those it reads (`files`), or those that only it writes (`outputs`). */
export function sinkFiles(config: SinkConfig, which: 'files' | 'outputs'): readonly NamedFile[] {
  const own = kindOf(config.type)[which]?.(config) ?? []
  return which === 'files' ? [...own, ...policyFiles(config.redact)] : own
}
