// What the encoding fingerprint covers, for a batch and for an object: a change while in flight means that it may have arrived in another form.
import { expect, it } from 'vitest'
import { configSchema } from '../../../src/config/schema.ts'
import { openAfterKeys, type Policy } from '../../../src/delivery/policy.ts'
import { lineFingerprint, objectFingerprint } from '../../../src/app/delivery.ts'

const both = { format: 'raw', sources: ['audit'], types: ['*'], redact: [], deny: {} }

function shapesOf(changed: object, sinkShape = 'one') {
  const { sinks } = configSchema.parse({
    workspaces: [{ name: 'acme', base_url: 'https://api.example.com', api_key: 'k', audit: {} }],
    sinks: [{ name: 'archive', type: 'file', path: '/out.ndjson', ...both, ...changed }],
  })
  const [config] = sinks
  if (!config) throw new Error('no sink')
  let policy: Policy | undefined
  const stepper = { step: async () => 'worked' as const }
  openAfterKeys(config, () => '', (opened) => ((policy = opened), stepper)) // prettier-ignore
  if (!policy) throw new Error('no policy')
  const sink = { shape: sinkShape }
  return { line: lineFingerprint(config, sink, policy), object: objectFingerprint(config, sink, policy) }
}

const first = shapesOf({})

it('is the same under the same settings, whatever else is set', () => {
  expect(shapesOf({})).toEqual(first)
  expect(shapesOf({ batch: { max_entries: 7 } })).toEqual(first)
})

it.each<[string, object, string, boolean]>([
  ['the format', { format: 'envelope' }, 'one', true],
  ['the sink’s own settings', {}, 'two', true],
  ['a field that is left out', { redact: [{ fields: ['ip'], with: 'drop' }] }, 'one', true],
  ['a denied entry', { deny: { type: ['auth:login'] } }, 'one', true],
  ['the sources', { sources: ['audit', 'history.usage'] }, 'one', false],
  ['the types', { types: ['auth:*'] }, 'one', false],
])(
  '%s: changes the fingerprint of an object, and that of a line only if its bytes change',
  (_, changed, shape, line) => {
    const now = shapesOf(changed, shape)
    expect([now.object !== first.object, now.line !== first.line]).toEqual([true, line])
  },
)
