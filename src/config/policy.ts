// A sink's content policy: top-level fields to change before sending, and entries to exclude.
import { z } from 'zod'
import { hashKeyFault } from '../core/secret.ts'
import { isIdentifyingField } from '../core/json.ts'
import type { NamedFile } from '../contracts/sink-kind.ts'
import { isRecord } from './fields.ts'

const MOST_BYTES = 16 * 2 ** 20

const fieldName = () => z.string().min(1)

const changes = ['drop', 'hash', 'truncate'] as const

type Issue = (path: PropertyKey[], message: string) => void

/** Rejects missing and superfluous keys: half a rule would do less than intended. */
function checkKeys(rule: Readonly<Record<string, unknown>>, issue: Issue): void {
  const needs = { hash: 'key_file', truncate: 'bytes' } as const
  for (const [change, key] of Object.entries(needs)) {
    if (rule['with'] === change && rule[key] === undefined)
      issue([], `with: ${change} lacks ${key}: name it beside`)
    if (rule['with'] !== change && rule[key] !== undefined)
      issue([key], `belongs to with: ${change}: take it out, or say so`)
  }
}

const rule = () =>
  z
    .strictObject({
      fields: z
        .array(
          fieldName().refine(
            (name) => !isIdentifyingField(name),
            'is what an entry is known by: it is never changed',
          ),
        )
        .min(1)
        .describe('Names of top-level fields; a field that an entry lacks is passed over.'),
      with: z
        .enum(changes)
        .describe(
          "drop: the field is left out; hash: its value becomes its HMAC-SHA-256, in hex; truncate: its value's first bytes stay.",
        ),
      key_file: z
        .string()
        .min(1)
        .optional()
        .describe('Of hash: the file of its key, 32 bytes of text at least (openssl rand -hex 32).'),
      bytes: z
        .int()
        .min(0)
        .max(MOST_BYTES)
        .optional()
        .describe('Of truncate: how many bytes of the value stay, as UTF-8.'),
    })
    .superRefine((value, context) => {
      checkKeys(value, (path, message) => context.addIssue({ code: 'custom', path, message }))
    })
    .transform(({ fields, with: change, key_file: keyFile = '', bytes = 0 }) => {
      if (change === 'hash') return { fields, with: change, keyFile }
      return change === 'truncate' ? { fields, with: change, bytes } : { fields, with: change }
    })

/** With two rules for a field it would be unclear which one applies. */
function checkUniqueFields(rules: unknown, issue: Issue): void {
  if (!Array.isArray(rules)) return
  const owners = new Map<unknown, number>()
  for (const [index, one] of (rules as unknown[]).entries()) {
    const fields: unknown = isRecord(one) ? one['fields'] : undefined
    for (const [at, name] of (Array.isArray(fields) ? (fields as unknown[]) : []).entries()) {
      const owner = owners.get(name)
      if (owner === undefined) owners.set(name, index)
      else
        issue([index, 'fields', at], `is already in redact[${owner}]: a field can be changed in only one way`)
    }
  }
}

export const redact = () =>
  z.array(rule()).superRefine(
    (rules: unknown, context) =>
      checkUniqueFields(rules, (path, message) => context.addIssue({ code: 'custom', path, message })),
    // Runs even if a rule is invalid, to report all faults at once.
    { when: () => true },
  )

const deniedValue = () =>
  z.string('expected a text in quotes: without them 0042 would be 42, and deny nothing')

export const deny = () => z.record(fieldName(), z.array(deniedValue()).min(1))

/** Values are compared by character: one that is not in NFC matches few entries. */
export function notNormalized(denied: z.output<ReturnType<typeof deny>> = {}) {
  const why =
    'is not in Unicode NFC (accents are separate characters): an entry that writes them as one character, as most programs do, is not denied; write it in NFC, or list both'
  return Object.entries(denied).flatMap(([name, values]) =>
    values.flatMap((value, at) => (values.includes(value.normalize()) ? [] : [{ path: [name, at], why }])),
  )
}

/** The policy's key files, each with its field. */
export function policyFiles(rules: z.output<ReturnType<typeof redact>> = []): readonly NamedFile[] {
  return rules.flatMap((one, index) =>
    one.with === 'hash'
      ? [{ field: `redact.${index}.key_file`, path: one.keyFile, fault: hashKeyFault }]
      : [],
  )
}
