// A sink's content policy through formats and frames: what is denied, what is changed, what stays correct beside the changed bytes.
import { describe, expect, test } from 'vitest'
import { formatNamed, formatNames } from '../../../src/formats/index.ts'
import { accountReport } from '../../../src/contracts/accounts.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { ChunkSlice } from '../../../src/contracts/journal.ts'
import type { Format, Outcome } from '../../../src/contracts/sink.ts'
import { ByteWriter } from '../../../src/core/bytes.ts'
import { framingOf } from '../../../src/delivery/loader.ts'
import type { StepResult } from '../../../src/delivery/loop.ts'
import { openAfterKeys, type Policy, type PolicySettings } from '../../../src/delivery/policy.ts'
import { hecFrame } from '../../../src/sinks/splunk-hec/body.ts'
import { linesOf, runOf } from '../../fakes/lines.ts'
import { never, openRig } from './rig.ts'

const KEY = 'k'.repeat(32)
const idle = { step: async (): Promise<StepResult> => Infinity }

function policyOf(settings: PolicySettings, read: (path: string) => string = () => KEY): Policy {
  let policy: Policy | undefined
  const stepper = openAfterKeys(settings, read, (opened) => {
    policy = opened
    return idle
  })
  void stepper.step(never)
  return policy ?? expect.fail('it was not opened')
}

const all = () => true
const raw = (entry: object) => JSON.stringify(entry)

describe('deny', () => {
  const cases: readonly [string, boolean][] = [
    ['{"cm_id":"0042"}', true],
    ['{"cm_id" : "\\u0030042" }', true],
    ['{"\\u0063m_id":"0042"}', true],
    ['{"cm_id":"other","cm_id":"0042"}', true],
    ['{"cm_id":"0042","cm_id":"other"}', true],
    ['{"cm_id":17}', true],
    ['{"cm_id":17.0}', false],
    ['{"cm_id":"17"}', true],
    ['{"cm_id":"0042, 17"}', false],
    ['{"cm_id":" 0042"}', false],
    ['{"cm_id":["0042"]}', false],
    ['{"cm_id":{"a":"0042"}}', false],
    ['{"data":{"cm_id":"0042"}}', false],
    ['{"user":"0042"}', false],
    ['{"user":"mallory"}', true],
    ['{}', false],
  ]
  test.each(cases)('%s: %s', (entry, denied) => {
    const policy = policyOf({ deny: { cm_id: ['0042', '17'], user: ['mallory'] } })
    expect(policy.allowed(all)(runOf([{ id: 'a', raw: entry }]), 0)).toBe(!denied)
  })

  test.each(['["x"]', '{"x":1}'])('a value that is no text equals nothing, though %s is listed', (listed) => {
    const policy = policyOf({ deny: { cm_id: [listed] } })
    const made = (value: string) => runOf([{ id: 'a', raw: `{"cm_id":${value}}` }])
    expect(policy.allowed(all)(made(listed), 0)).toBe(true)
    expect(policy.allowed(all)(made(JSON.stringify(listed)), 0)).toBe(false)
  })

  test('entries that the sink does not want stay unwanted', () => {
    const { allowed } = policyOf({ deny: { cm_id: ['x'] } })
    const run = runOf([{ id: 'a', raw: raw({ cm_id: 'y' }) }])
    expect(allowed(() => false)(run, 0)).toBe(false)
    expect(allowed(all)(run, 0)).toBe(true)
  })

  test('a retry or replay for this sink alone is denied too', () => {
    const { allowed } = policyOf({ deny: { cm_id: ['x'] } })
    const run = runOf([{ id: 'a', raw: raw({ cm_id: 'x' }) }], { onlySink: 'siem', replay: true })
    expect(allowed(({ onlySink }) => onlySink === 'siem')(run, 0)).toBe(false)
  })
})

describe('formats and frames of a changed entry', () => {
  const secret = 'privileged words'
  const made = [
    {
      id: 'id-1',
      type: 'a',
      raw: raw({ id: 'id-1', query: secret, timestamp: 't', response: 'r'.repeat(99) }),
    },
    { id: 'id-2', type: 'b', version: 3, raw: raw({ user: 'someone', id: 'id-2', query: secret }) },
    { id: 'id-4', type: 'c', raw: raw({ user: 'someone', id: 'id-4' }) },
    {
      id: 'id-3',
      type: 'a',
      time: '2026-11-21T10:00:01',
      raw: raw({ query: secret, query2: secret.slice(0, 3) }),
    },
  ]
  const redact = [
    { fields: ['query'], with: 'hash', keyFile: 'k' },
    { fields: ['response'], with: 'truncate', bytes: 4 },
  ] as const
  const policy = policyOf({ redact })
  const seen = (run: ChunkSlice, format: Format, frame = hecFrame({ hostOf: () => 'h' })) => {
    const framing = framingOf({ sink: { frame }, format, wanted: all, redact: policy.redact })
    const { bytes } = linesOf(run, framing.sink.frame, format)
    return Buffer.from(bytes).toString()
  }

  /** The same entries as if the API had sent them that way. */
  function asIfSent(): ChunkSlice {
    const out = new ByteWriter()
    const changed = made.map((one) => {
      out.clear()
      return policy.redact?.(Buffer.from(one.raw), out) ? { ...one, raw: out.view().toString() } : one
    })
    return runOf(changed)
  }

  test.each(formatNames)(
    '%s: the same bytes as if the API had sent the entry that way, ids and times included',
    (name) => {
      const frame = hecFrame({ hostOf: () => 'h' })
      const wanted = Buffer.from(linesOf(asIfSent(), frame, formatNamed(name)).bytes).toString()
      const text = seen(runOf(made), formatNamed(name))
      expect(text).toBe(wanted)
      expect(text).not.toContain(secret)
      for (const { id } of made) expect(text).toContain(id)
    },
  )

  test('each chunk slice has its own stream, whether its entries are changed or not', () => {
    const format = formatNamed('envelope')
    const { frame } = framingOf({
      ...{ sink: { frame: hecFrame({ hostOf: () => 'h' }) }, format, wanted: all, redact: policy.redact },
    }).sink
    for (const workspace of ['acme', 'beta', 'acme']) {
      const run = runOf(made, { stream: { workspace, source: 'audit' }, replay: workspace === 'beta' })
      const text = Buffer.from(linesOf(run, frame, format).bytes).toString()
      expect(text.match(new RegExp(`"workspace":"${workspace}"`, 'g'))).toHaveLength(2 * made.length)
      expect(text.includes('"replay":true')).toBe(run.replay)
    }
  })

  test('a frame sees its own sequence numbers', () => {
    const seqs: number[] = []
    seen(runOf(made, { firstSeq: 70 }), formatNamed('raw'), (run, index) => {
      seqs.push(run.firstSeq + index)
    })
    expect(seqs).toEqual([70, 71, 72, 73])
  })
})

describe('delivery', () => {
  test('denied entries are counted as filtered and acknowledged; changed ones go out changed, also after a crash', async () => {
    const rig = await openRig()
    await rig.append(1, { body: 'gone' })
    await rig.append(2, { body: 'privileged' })
    const policy = policyOf({ redact: [{ fields: ['body'], with: 'drop' }], deny: { body: ['gone'] } })
    const sinkRig = rig.sinkRig('archive', { redact: policy.redact, wanted: policy.allowed(all) })
    sinkRig.sink.answer = () => {
      throw new ConnectorError('unreachable', 'gone')
    }
    await expect(sinkRig.step()).rejects.toThrow('gone')
    sinkRig.restart()
    sinkRig.sink.answer = ({ lines }) => ({ acknowledged: lines.count, rejected: [] })
    await sinkRig.empty()
    const [first, second] = sinkRig.sink.deliveries
    expect(first?.texts).toHaveLength(2)
    expect(second?.texts).toEqual(first?.texts)
    for (const text of first?.texts ?? []) expect(text).not.toContain('"body"')
    expect(sinkRig.reporter.filtered).toBe(1)
  })
})

describe('a retried dead letter', () => {
  const refuseAll = (): Outcome => ({
    acknowledged: 1,
    rejected: [{ index: 0, code: 'refused', reason: 'no' }],
  })

  test('follows the current policy; if that denies it, it is not sent and counts as filtered', async () => {
    const rig = await openRig()
    await rig.append(1, { body: 'privileged' })
    const { redact } = policyOf({ redact: [{ fields: ['body'], with: 'truncate', bytes: 3 }] })
    const sinkRig = rig.sinkRig('archive', { redact })
    sinkRig.sink.answer = refuseAll
    await sinkRig.empty()
    await rig.journal.retryDeadLetters({})
    await sinkRig.empty()
    expect(
      sinkRig.sink.deliveries.map(({ texts: [text = ''] }) => text.slice(text.indexOf('"body"'))),
    ).toEqual(Array(2).fill('"body":"pri…[truncated 7 bytes]"}'))
    await rig.journal.retryDeadLetters({})
    sinkRig.restart({ wanted: policyOf({ deny: { body: ['privileged'] } }).allowed(sinkRig.options.wanted) })
    await sinkRig.empty()
    expect([sinkRig.sink.deliveries.length, sinkRig.reporter.filtered]).toEqual([2, 1])
    const { rows } = await accountReport(rig.journal, { fromDay: 0, toDay: 1e6 }, ['archive'])
    expect(rows).toMatchObject([
      { kept: 1, accepted: 0, filtered: 1, dead_lettered: 0, pending: 0, missing: 0 },
    ])
  })
})

describe('settings', () => {
  const hash = (keyFile: string) => ({ redact: [{ fields: ['query'], with: 'hash' as const, keyFile }] })

  test('without a policy nothing is evaluated and the fingerprint does not change', () => {
    for (const settings of [{}, { redact: [], deny: {} }]) {
      const policy = policyOf(settings)
      expect([policy.shapes, policy.redact, policy.allowed(all)]).toEqual([[], undefined, all])
    }
  })

  test('each setting and the key change the fingerprint, and none reveals the key', () => {
    const shapes = [
      policyOf({ deny: { a: ['b'] } }),
      policyOf({ deny: { a: ['c'] } }),
      policyOf({ redact: [{ fields: ['a'], with: 'drop' }] }),
      policyOf({ redact: [{ fields: ['b'], with: 'drop' }] }),
      policyOf({ redact: [{ fields: ['a', 'b'], with: 'drop' }] }),
      policyOf({ redact: [{ fields: ['a'], with: 'truncate', bytes: 1 }] }),
      policyOf({ redact: [{ fields: ['a'], with: 'truncate', bytes: 2 }] }),
      policyOf(hash('k')),
      policyOf(hash('k'), () => 'z'.repeat(40)),
    ].map(({ shapes: [shape = ''] }) => shape)
    expect(new Set(shapes).size).toBe(shapes.length)
    expect(shapes.join('')).not.toMatch(/kkkk|zzzz/)
    expect(policyOf(hash('elsewhere')).shapes).toEqual(policyOf(hash('k')).shapes)
  })

  test.each([
    [
      'missing',
      () => {
        throw Object.assign(new Error('no such file, planted'), { code: 'ENOENT' })
      },
      'ENOENT',
    ],
    ['too short', () => ` ${'p'.repeat(31)}\n`, 'shorter than 32 bytes'],
    ['no text', () => `${'p'.repeat(40)}\ufffd`, 'it is not text'],
  ])('a key that is %s blocks the sink until it is valid, and nothing goes out', async (_, bad, reported) => {
    let read: () => string = bad
    let opened = 0
    const stepper = openAfterKeys(
      hash('/run/hash-key'),
      () => read(),
      () => {
        opened++
        return idle
      },
    )
    expect(stepper.unfinished).toBe(true)
    for (let i = 0; i < 2; i++) {
      const error: unknown = await stepper.step(never).catch((thrown: unknown) => thrown)
      if (!(error instanceof ConnectorError)) return expect.fail('it went on')
      expect([error.action, opened]).toEqual(['block', 0])
      expect(error.message).toContain('/run/hash-key')
      expect(error.message).toContain(reported)
      expect(error.message).not.toMatch(/ppp|planted/)
    }
    read = () => `${KEY}\n`
    expect(await stepper.step(never)).toBe(Infinity)
    expect([opened, stepper.unfinished]).toEqual([1, false])
  })
})
