// What sse and object_lock require: which KMS keys are the same, and what an object lacks that was stored before they were set.
import { describe, expect, it } from 'vitest'
import type { ObjectGroup } from '../../../../src/contracts/sink.ts'
import { compareKeys } from '../../../../src/sinks/s3/bucket.ts'
import { s3 } from '../../../../src/sinks/s3/sink.ts'
import { FakeS3, type S3Switches, s3Transport } from '../../../fakes/s3.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'
import { never } from '../../delivery/rig.ts'

const group: ObjectGroup = {
  stream: { workspace: 'acme', source: 'audit' },
  day: '2026-01-31',
  replay: undefined,
}
const lock = { object_lock: { mode: 'compliance', days: 365 } }
const [ONE, OTHER] = ['1234abcd-12ab-34cd-56ef-1234567890ab', '9999abcd-12ab-34cd-56ef-1234567890ab']
const arn = (id: string, region = 'eu-central-1') => `arn:aws:kms:${region}:111122223333:key/${id}`

function bench(switches: Partial<S3Switches> = {}) {
  const fake = new FakeS3(switches)
  const deps = sinkDeps()
  const keys = { access_key_id: 'AK', secret_access_key: 'planted-secret' }
  const base = { bucket: 'logs', endpoint: 'https://s3.test', force_path_style: true, ...keys }
  const open = (given: object) =>
    s3.open('archive', s3.options.parse({ ...base, ...given }), {
      ...deps,
      transport: () => s3Transport(fake, deps.clock),
    })
  const put = async (given: object) => {
    const object = await open(given).open(0)
    await object.write(Buffer.from('{"id":"a"}\n'))
    const ready = await object.end({ group, count: 1, first: 7, last: 7, firstAtUs: 1, lastAtUs: 1 })
    return ready.put(never)
  }
  return { fake, open, put, lines: deps.log.lines }
}

describe('a KMS key', () => {
  it.each([
    [ONE, arn(ONE), 'same'],
    [arn(ONE), arn(ONE), 'same'],
    [arn(ONE), ONE, 'same'],
    [arn(`mrk-${ONE.replaceAll('-', '')}`), arn(`mrk-${ONE.replaceAll('-', '')}`, 'us-east-1'), 'same'],
    ['my-key', 'arn:aws:kms:my-key', 'same'],
    [ONE, arn(OTHER), 'other'],
    [arn(ONE), arn(OTHER), 'other'],
    [arn('aaaa'), arn('bbbb'), 'other'],
    ['alias/audit', arn(ONE), 'unknown'],
    ['arn:aws:kms:eu-central-1:111122223333:alias/audit', arn(ONE), 'unknown'],
    ['my-key', arn(ONE), 'unknown'],
    [ONE, 'what the server calls it', 'unknown'],
    [ONE, undefined, 'unknown'],
  ] as const)('%s against %s: %s', (wanted, reported, answer) => {
    expect(compareKeys(wanted, reported)).toBe(answer)
  })

  it.each([false, true])(
    'with another name than sse.kms_key_id blocks the sink before anything is stored (may only write: %s)',
    async (writeOnly) => {
      const { put, fake } = bench({ ownKmsKey: arn(OTHER), writeOnly })
      await expect(put({ sse: { type: 'kms', kms_key_id: arn(ONE) } })).rejects.toMatchObject({
        code: 'misconfigured',
        message: expect.stringContaining('another KMS key than sse.kms_key_id') as string,
      })
      expect(fake.entries).toEqual([])
    },
  )

  it('that cannot be compared blocks nothing, and the check says so', async () => {
    const { put, open, fake } = bench({ ownKmsKey: arn(OTHER) })
    const sse = { type: 'kms', kms_key_id: 'alias/audit' }
    const results = await open({ sse }).check(never)
    expect(results.filter(({ ok }) => !ok)).toEqual([])
    expect(results.map(({ message }) => message).join()).toContain('could not be compared')
    await put({ sse })
    expect(fake.entries).toHaveLength(1)
    await put({ sse: { type: 'kms' } })
    expect((await open({ sse: { type: 'kms' } }).check(never)).map(({ message }) => message).join()).not.toContain('could not be compared') // prettier-ignore
  })
})

describe('an object that an earlier try stored', () => {
  const lacks = (what: string) => expect.stringMatching(new RegExp(`without the current settings.*"key":"workspace=acme.*"lacks":"${what}"`)) as string // prettier-ignore

  it.each([
    ['as now required', { sse: { type: 's3' }, ...lock }, { sse: { type: 's3' }, ...lock }, []],
    ['with no requirement', lock, {}, []],
    ['without a lock', { sse: { type: 's3' } }, { sse: { type: 's3' }, ...lock }, [lacks('object_lock')]],
    ['under a weaker lock', { object_lock: { mode: 'governance', days: 1 } }, lock, [lacks('object_lock')]],
    ['under a stronger lock', lock, { object_lock: { mode: 'governance', days: 1 } }, []],
    ['unencrypted', lock, { sse: { type: 's3' }, ...lock }, [lacks('sse')]],
    ['with another key', { sse: { type: 'kms', kms_key_id: arn(OTHER) } }, { sse: { type: 'kms', kms_key_id: arn(ONE) } }, [lacks('sse')]], // prettier-ignore
    ['without both', {}, { sse: { type: 's3' }, ...lock }, [lacks('sse, object_lock')]],
  ])('%s counts as stored, and what it lacks is reported with its name', async (_, before, now, reported) => {
    const { put, lines, fake } = bench()
    await put(before)
    expect(await put(now)).toMatchObject({ alreadyStored: true })
    expect(lines).toEqual(reported)
    expect(fake.entries).toHaveLength(1)
  })

  it('is reported with its name if this role may not read it', async () => {
    const { put, lines } = bench({ writeOnly: true })
    await put({})
    expect(await put(lock)).toMatchObject({ alreadyStored: true })
    expect(lines).toEqual([expect.stringMatching(/may not read its settings.*"key":"workspace=acme/)])
  })

  it('and is missing when it is read counts as not stored: it is put again', async () => {
    const { put, fake } = bench()
    await put({})
    fake.faultOfAll = ({ method, url }) => {
      if (method === 'HEAD' && url.includes('/workspace')) fake.objects.delete(fake.entries[0]?.key ?? '')
      return undefined
    }
    await expect(put(lock)).rejects.toMatchObject({ code: 'bad_reply' })
    expect(await put(lock)).toMatchObject({ alreadyStored: false })
  })
})
