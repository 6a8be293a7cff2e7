// Which requests count together: the limit is the key's, whatever the workspaces are called (invariant 5).
import { stateIn } from '../../fakes/state.ts'
import { afterEach, expect, test } from 'vitest'
import { RateLimiters } from '../../../src/app/rate-limits.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { StateChange } from '../../../src/contracts/journal.ts'
import { Secret, SecretLook } from '../../../src/core/secret.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'
import { fastClock, openDaemonRig, reply, until } from './daemon-rig.ts'

const limits = { audit: 60, history: 60, vault: 10, assistant: 20 }

const workspace = (name: string, key: string, more: Partial<{ url: string; audit: number }> = {}) => ({
  name,
  base_url: more.url ?? 'https://api.example.com',
  api_key: new Secret(key),
  rate_limits: { ...limits, audit: more.audit ?? limits.audit },
})

type Workspaces = ReturnType<typeof workspace>[]

/** A journal's state and a clock, over which one set of rate limiters follows another. */
function place(kept: Readonly<Record<string, string>> = {}) {
  const notes = new Map(Object.entries(kept))
  const hook: { changes: (change: StateChange) => void } = { changes: () => undefined }
  const state = stateIn(notes, (change) => hook.changes(change))
  const clock = new VirtualClock(0)
  const open = (...workspaces: Workspaces) =>
    new RateLimiters(workspaces, { state, clock, random: () => 0.5 })
  return { notes, clock, open, hook }
}

const rateLimitersOf = (...workspaces: Workspaces) => ({ rateLimiters: place().open(...workspaces) })

type Opened = ReturnType<RateLimiters['of']>

async function ask(rateLimiter: Opened, times = 1): Promise<void> {
  for (let i = 0; i < times; i++) (await rateLimiter.acquire('live', new AbortController().signal))()
}

/** The rate limiter of the audit log as a start finds it, with its earlier use. */
async function started(open: (...workspaces: Workspaces) => RateLimiters, one: Workspaces[number]) {
  const rateLimiters = open(one)
  const rateLimiter = rateLimiters.of(one, 'audit')
  await rateLimiters.load()
  return rateLimiter
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  const until = clock.now() + ms
  do await settled()
  while (clock.advance(until))
}

function rotate({ api_key: key }: Workspaces[number], value: string): void {
  key.follow(() => value)
  new SecretLook([key], { elapsed: () => 0 }).look()
}

const window = (ahead: number, savedAt = 0) => JSON.stringify({ savedAt, answered: [], ahead, blockedMs: 0 })

test('workspaces with one key on one host share a rate limiter in each area, with the lowest of their limits', async () => {
  const one = workspace('one', 'k', { audit: 50 })
  const two = workspace('two', 'k', { audit: 40, url: 'https://api.example.com/' })
  const { rateLimiters } = rateLimitersOf(one, two)
  await ask(rateLimiters.of(two, 'audit'), 3)
  expect(rateLimiters.of(one, 'audit').used).toMatchObject({ permits: 3, allowed: 40, limit: 40 })
  expect(rateLimiters.of(one, 'history').used.permits).toBe(0)
  expect([rateLimiters.sharedWith(one), rateLimiters.sharedWith(two)]).toEqual([['two'], ['one']])
})

test('another key or another host has rate limiters of its own', async () => {
  const one = workspace('one', 'k')
  const others = [workspace('two', 'other'), workspace('three', 'k', { url: 'https://api.example.org' })]
  const { rateLimiters } = rateLimitersOf(one, ...others)
  await ask(rateLimiters.of(one, 'audit'))
  expect(others.map((each) => rateLimiters.of(each, 'audit').used.permits)).toEqual([0, 0])
  expect(rateLimiters.sharedWith(one)).toEqual([])
})

test('a renamed workspace keeps the rate limiter of its key, and the journal does not contain the key', async () => {
  const { notes, open } = place()
  await ask(open(workspace('one', 'planted-key')).of(workspace('one', 'planted-key'), 'audit'), 7)
  const renamed = workspace('uno', 'planted-key')
  const rateLimiters = open(renamed)
  const rateLimiter = rateLimiters.of(renamed, 'audit')
  await rateLimiters.load()
  expect(rateLimiter.used.permits).toBeGreaterThanOrEqual(7)
  expect([...notes].flat().join(' ')).not.toContain('planted-key')
})

test('state kept under workspace names is migrated once, the latest of it, and then deleted', async () => {
  const { notes, open } = place({ 'budget:one:audit': window(1, -60_000), 'budget:two:audit': window(7) })
  const all = [workspace('one', 'k'), workspace('two', 'k')] as const
  const rateLimiter = open(...all).of(all[0], 'audit')
  await ask(rateLimiter)
  expect(rateLimiter.used.permits).toBe(8)
  expect([...notes.keys()].filter((name) => name.startsWith('budget:'))).toEqual([])
})

test('windows of unused keys and names leave the journal when they expire', async () => {
  const hour = 3_600_000
  const kept = { 'budget:gone:audit': window(1, -2 * hour), 'requests:feed:audit': window(1, -2 * hour) }
  const { notes, open } = place({
    ...kept,
    'requests:beef:audit': window(1, -hour / 2),
    'asked-with:gone': '[["feed",null]]',
  })
  await open(workspace('one', 'k')).load()
  expect([...notes.keys()]).toEqual(['requests:beef:audit', 'asked-with:one'])
})

test('a key rotated to that of another workspace counts with it from the next request on', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 20 }), workspace('two', 'l')]
  const { rateLimiters } = rateLimitersOf(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  await ask(ofTwo, 15)
  rotate(one, 'l')
  await ask(ofOne, 5)
  expect(ofTwo.used).toMatchObject({ permits: 20, allowed: 20, limit: 20 })
  expect(ofOne.freeAt('live')).toBeGreaterThan(0)
  expect(rateLimiters.sharedWith(two)).toEqual(['one'])
})

test('a new key inherits the use of the old one for two minutes: the limit may be the workspace’s', async () => {
  const [one, two] = [workspace('one', 'k'), workspace('two', 'k')]
  const { clock, open } = place()
  const rateLimiters = open(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  await ask(ofOne, 50)
  rotate(one, 'fresh')
  await ask(ofOne, 10)
  expect(ofOne.freeAt('live')).toBeGreaterThan(clock.now())
  await pass(clock, 120_000)
  await ask(ofTwo, 60)
  expect(ofOne.used.permits).toBe(0)
})

test('a key that changed while the daemon was stopped inherits the use of the one before', async () => {
  const { open } = place()
  await ask(await started(open, workspace('one', 'k')), 50)
  const fresh = await started(open, workspace('one', 'fresh'))
  expect(fresh.used.permits).toBeGreaterThanOrEqual(50)
})

test('however quickly starts or keys follow each other, each key counts with the next for its two minutes', async () => {
  const { clock, open } = place()
  const used: number[] = []
  for (const key of ['k', 'fresh', 'fresh', 'third']) {
    const rateLimiter = await started(open, workspace('one', key))
    used.push(rateLimiter.used.permits)
    if (key === 'k') await ask(rateLimiter, 50)
    await rateLimiter.close()
  }
  expect(Math.min(...used.slice(1))).toBeGreaterThanOrEqual(50)
  await pass(clock, 120_000)
  const rateLimiter = await started(open, workspace('one', 'third'))
  await ask(rateLimiter, 60)
  expect(rateLimiter.used.permits).toBe(60)
})

test.each([
  ['half a minute', 30_000, 30_000],
  ['nothing', -1, 0],
  ['ten hours, as by a clock that was set back', 36_000_000, 120_000],
  ['all, as it was in use', null, 120_000],
])(
  'a key that was given up counts at the next start for what is left of its two minutes: of %s',
  async (_, until, ms) => {
    const { notes, clock, open } = place()
    const before = await started(open, workspace('one', 'k'))
    await ask(before)
    await before.limited(3_600_000)
    const [[key]] = JSON.parse(notes.get('asked-with:one') ?? '[[]]') as [[string]]
    notes.set('asked-with:one', JSON.stringify([[key, until]]))
    const next = await started(open, workspace('one', 'fresh'))
    if (ms > 0) await pass(clock, ms - 1)
    expect(next.freeAt('live') > clock.now()).toBe(ms > 0)
    await pass(clock, 1)
    expect(next.freeAt('live')).toBeLessThanOrEqual(clock.now())
  },
)

test.each([
  ['a full disk', new ConnectorError('disk_full', 'no'), true],
  ['a failing disk', new ConnectorError('disk_failed', 'no'), false],
  ['a bug', new TypeError('no'), false],
])('a start continues over a full disk alone: %s', async (_, error, goesOn) => {
  const { open, hook } = place()
  hook.changes = () => {
    throw error
  }
  const loading = open(workspace('one', 'k')).load()
  await (goesOn ? loading : expect(loading).rejects.toBe(error))
})

test('a rotation that cannot be written down does not fail', async () => {
  const one = workspace('one', 'k')
  const { open, hook } = place()
  const rateLimiter = await started(open, one)
  hook.changes = () => {
    throw new ConnectorError('disk_full', 'no')
  }
  rotate(one, 'fresh')
  expect(rateLimiter.freeAt('live')).toBe(0)
  await settled()
})

test('a start with nothing changed writes nothing', async () => {
  const { open, hook } = place()
  const both = [workspace('one', 'k'), workspace('two', 'l')] as const
  await open(...both).load()
  let writes = 0
  hook.changes = () => {
    writes++
  }
  await open(...both).load()
  expect(writes).toBe(0)
  await open(both[0], workspace('two', 'other')).load()
  expect(writes).toBe(1)
})

test('a rotated key counts two minutes in all, over a start in between', async () => {
  const one = workspace('one', 'k')
  const { clock, open } = place()
  const before = await started(open, one)
  await ask(before)
  await before.limited(3_600_000)
  rotate(one, 'fresh')
  before.freeAt('live')
  await pass(clock, 100_000)
  const next = await started(open, workspace('one', 'fresh'))
  await pass(clock, 19_999)
  expect(next.freeAt('live')).toBeGreaterThan(clock.now())
  await pass(clock, 1)
  expect(next.freeAt('live')).toBeLessThanOrEqual(clock.now())
})

test('a request that still waits under an abandoned key has the limit of the last workspace that used it', async () => {
  const one = workspace('one', 'k', { audit: 4 })
  const { clock, open } = place()
  const rateLimiter = open(one).of(one, 'audit')
  let entered = 0
  await rateLimiter.limited(600_000)
  for (let i = 0; i < 12; i++)
    void rateLimiter.acquire('live', new AbortController().signal).then((leave) => {
      entered++
      leave()
    })
  rotate(one, 'fresh')
  rateLimiter.freeAt('live')
  await pass(clock, 180_000)
  rateLimiter.freeAt('live')
  await pass(clock, 421_000)
  expect(entered).toBeGreaterThan(0)
  expect(entered).toBeLessThanOrEqual(4)
})

test('a key rotated at runtime is the previous key for the next start', async () => {
  const { clock, open } = place()
  const before = workspace('one', 'k')
  const rateLimiter = await started(open, before)
  rotate(before, 'fresh')
  await ask(rateLimiter)
  await pass(clock, 600_000)
  await ask(rateLimiter, 50)
  const third = await started(open, workspace('one', 'third'))
  expect(third.used.permits).toBeGreaterThanOrEqual(50)
})

test('a key that is left and taken again has one rate limiter, together with the requests that waited in it all along', async () => {
  const one = workspace('one', 'k')
  const { clock, open } = place()
  const rateLimiter = open(one).of(one, 'audit')
  let entered = 0
  const enter = () => void rateLimiter.acquire('live', new AbortController().signal).then(() => entered++)
  await rateLimiter.limited(600_000)
  for (let i = 0; i < 40; i++) enter()
  rotate(one, 'fresh')
  rateLimiter.freeAt('live')
  await pass(clock, 180_000)
  rateLimiter.freeAt('live')
  rotate(one, 'k')
  for (let i = 0; i < 45; i++) enter()
  await pass(clock, 430_000)
  expect(entered).toBeGreaterThanOrEqual(50)
  expect(entered).toBeLessThanOrEqual(60)
})

test('the limit of a workspace that left a key no longer applies to the others', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 5 }), workspace('two', 'k')]
  const { clock, open } = place()
  const rateLimiters = open(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  rotate(one, 'fresh')
  ofOne.freeAt('live')
  await pass(clock, 120_000)
  await ask(ofOne)
  await ask(ofTwo)
  await pass(clock, 3_600_000)
  await ask(ofTwo, 60)
  expect(ofTwo.used).toMatchObject({ permits: 60, allowed: 60, limit: 60 })
})

test.each(['a reload', 'a rotation'])(
  'two keys swapped in %s each keep their earlier requests',
  async (how) => {
    const { open } = place()
    let [one, two] = [workspace('one', 'k'), workspace('two', 'l')]
    let rateLimiters = open(one, two)
    const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
    await rateLimiters.load()
    await ask(ofOne, 10)
    await ask(ofTwo, 30)
    if (how === 'a reload') {
      await Promise.all([ofOne.close(), ofTwo.close()])
      ;[one, two] = [workspace('one', 'l'), workspace('two', 'k')]
      rateLimiters = open(one, two)
    } else {
      rotate(one, 'l')
      rotate(two, 'k')
    }
    const swapped = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')] as const
    await rateLimiters.load()
    await Promise.all([ask(swapped[0], 15), ask(swapped[1], 15)])
    expect(swapped.map(({ used }) => used)).toMatchObject(
      Array(2).fill({ permits: 60, allowed: 60, limit: 60 }),
    )
  },
)

test('two requests that need permits of the same two limiters never wait for each other', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 1 }), workspace('two', 'l', { audit: 1 })]
  const { clock, open } = place()
  const rateLimiters = open(one, two)
  const both = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')] as const
  rotate(one, 'l')
  rotate(two, 'k')
  const asked = Promise.all(both.map((rateLimiter) => ask(rateLimiter)))
  await pass(clock, 180_000)
  await asked
})

test('a request that waits for the old key takes no permit of the new one from another workspace', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 2 }), workspace('two', 'l', { audit: 2 })]
  const { clock, open } = place()
  const rateLimiters = open(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  await ofOne.limited(3_600_000)
  rotate(one, 'l')
  const waited: number[] = []
  const asked = [1, 2].map(() => ask(ofOne).then(() => waited.push(clock.now())))
  await pass(clock, 1_000)
  await ask(ofTwo, 2)
  expect(clock.now()).toBe(1_000)
  await pass(clock, 130_000)
  await Promise.all(asked)
  expect(waited).toEqual([120_000, 120_000])
})

test('a request that waits for two keys takes a permit of each at once, and reports its wait once', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 2 }), workspace('two', 'l', { audit: 2 })]
  const { clock, open } = place()
  const rateLimiters = open(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  await ask(ofTwo, 2)
  rotate(one, 'l')
  let reported = 0
  const entered = ofOne.acquire('live', new AbortController().signal, () => reported++)
  await pass(clock, 59_000)
  expect(ofTwo.used.permits).toBe(2)
  await pass(clock, 2_000)
  await entered
  expect([reported, ofOne.used.permits, ofTwo.used.permits]).toEqual([1, 1, 1])
})

test('of two requests for one permit left under a shared key, the second takes none under the other', async () => {
  const workspaces = [
    workspace('one', 'k'),
    workspace('two', 'l', { audit: 2 }),
    workspace('three', 'k'),
  ] as const
  const [one, two, three] = workspaces
  const { clock, open } = place()
  const rateLimiters = open(...workspaces)
  const [ofOne, ofTwo, ofThree] = [
    rateLimiters.of(one, 'audit'),
    rateLimiters.of(two, 'audit'),
    rateLimiters.of(three, 'audit'),
  ]
  await ask(ofTwo)
  rotate(one, 'l')
  const asked = [ask(ofOne), ask(ofOne)]
  await settled()
  expect([ofTwo.used.permits, ofThree.used.permits]).toEqual([2, 1])
  await pass(clock, 61_000)
  await Promise.all(asked)
})

test('a request that gives up while waiting for two keys has taken no permit', async () => {
  const [one, two] = [workspace('one', 'k', { audit: 2 }), workspace('two', 'l', { audit: 2 })]
  const { open } = place()
  const rateLimiters = open(one, two)
  const [ofOne, ofTwo] = [rateLimiters.of(one, 'audit'), rateLimiters.of(two, 'audit')]
  await ofOne.limited(3_600_000)
  rotate(one, 'l')
  const stop = new AbortController()
  const entered = ofOne.acquire('live', stop.signal)
  await settled()
  stop.abort()
  await expect(entered).rejects.toThrow()
  expect([ofOne.used.permits, ofTwo.used.permits]).toEqual([0, 0])
})

let daemonRig: ReturnType<typeof openDaemonRig> | undefined
afterEach(() => daemonRig?.remove())

test('a daemon whose workspaces have one key stays within its request limit', async () => {
  const rate = { rate_limits: { audit: 10 } }
  const same = { ...rate, api_key: 'acme-key' }
  daemonRig = openDaemonRig({ workspace: rate, others: ['beta'], otherWorkspaces: same })
  const { clock, mock } = daemonRig
  const app = await daemonRig.open(false)
  try {
    void app.run().catch(() => undefined)
    const startAt = clock.now()
    const isLater = () => clock.now() - startAt > 30_000
    await until(() => isLater() && mock.requests.length > 5, 'half a minute, and more than one could ask')
    // A busy machine may have let more than a minute pass.
    const inMinute = mock.requests.filter(({ at }) => at < (mock.requests[0]?.at ?? 0) + 60_000)
    expect(inMinute.length).toBeLessThanOrEqual(10)
    const [acme, beta] = app.registry
      .status()
      .workspaces.map(({ rate_limits }) => rate_limits?.[0]?.shared_with)
    expect([acme, beta]).toEqual([['beta'], ['acme']])
  } finally {
    await app.stop()
  }
})

test('requests before a restart or a reload count from the start on, not from the first read', async () => {
  const running = fastClock()
  const stopped: { at?: number } = {}
  const clock = { ...running, now: () => stopped.at ?? running.now() }
  daemonRig = openDaemonRig({ clock })
  const before = await daemonRig.open(false)
  void before.run().catch(() => undefined)
  const { mock } = daemonRig
  await until(() => mock.requests.length > 3, 'some requests')
  await before.stop()
  // Requests of a minute ago count no more, however long the next start takes here.
  stopped.at = running.now()
  const after = await daemonRig.open(false)
  try {
    const [rateLimiter] = after.registry.status().workspaces[0]?.rate_limits ?? []
    expect(rateLimiter).toEqual({ area: 'audit', used: mock.requests.length, limit: 60 })
  } finally {
    await after.stop()
  }
})

test('a 429 shows in its rate limiter with the end of the pause', async () => {
  daemonRig = openDaemonRig({ api: async () => ({ ...reply(429, {}), headers: { 'retry-after': '600' } }) })
  const app = await daemonRig.open(false)
  try {
    void app.run().catch(() => undefined)
    const reported = () => app.registry.status().workspaces[0]?.rate_limits?.[0]?.limited_until
    // The rate limiter knows it before the source does.
    const sentence = () => app.registry.status().summary
    await until(() => sentence().includes('the API answered 429, and no request is sent until'), 'the 429')
    const leftMs = Date.parse(reported() ?? '') - daemonRig.clock.now()
    expect(leftMs).toBeGreaterThan(500_000)
    expect(leftMs).toBeLessThanOrEqual(600_000)
    expect(app.registry.status().workspaces[0]?.rate_limits?.[0]).toMatchObject({
      limit: 45,
      lowered_from: 60,
    })
  } finally {
    await app.stop()
  }
})
