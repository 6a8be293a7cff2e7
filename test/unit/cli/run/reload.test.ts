// A configuration replaced while the daemon runs:
// whole or not at all, and without losing a position.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { runDaemon, withErrorReport } from '../../../../src/cli/run/daemon.ts'
import { reloading } from '../../../../src/cli/run/reload.ts'
import { readTextFile, realFiles } from '../../../../src/config/files.ts'
import type { LoadedConfig } from '../../../../src/config/load.ts'
import { loadToRun } from '../../../../src/config/environment-checks.ts'
import { systemClock } from '../../../../src/platform/clock.ts'
import { ConnectorError } from '../../../../src/core/errors.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import type { Log } from '../../../../src/core/log.ts'
import type { Tracing } from '../../../../src/contracts/reporter.ts'
import type { StatusReport } from '../../../../src/observability/status.ts'
import { connectControl } from '../../../../src/control/client.ts'
import { openRegistered } from '../../../fakes/registered.ts'
import { logOf, part, spec } from '../../../contract/journal-parts.ts'
import { LogLines } from '../../../fakes/sink-deps.ts'
import { withMethods } from '../../../fakes/with-methods.ts'
import { openDaemonRig, until } from '../../app/daemon-rig.ts'

let daemonRig: ReturnType<typeof openDaemonRig>
let file: string
let stopping: AbortController
let daemon: Promise<void>
let hangUp: () => void
let url: string

const text = (...sinks: string[]) => `
journal: { path: ${daemonRig.folder}/a.db, max_bytes: 1MiB }
workspaces: [{ name: acme, base_url: "https://api.example.com", api_key: acme-key, audit: { interval: 1s, lookback: 0s } }]
sinks: [${sinks.map((name) => `{ name: ${name}, type: file, path: ${daemonRig.folder}/${name}.out }`).join(', ')}]
server: { listen: "127.0.0.1:0" }
`
let loads = 0
let outOfFiles = false
let beforeLook: () => void = () => undefined
const references = {
  env: {},
  readFile(path: string): string {
    if (path === file) beforeLook()
    if (outOfFiles) throw Object.assign(new Error('EMFILE'), { code: 'EMFILE' })
    return readTextFile(path)
  },
}
const load = () => {
  loads++
  return loadToRun(file, references, realFiles)
}
const linesOf = (name: string) => {
  try {
    return readFileSync(join(daemonRig.folder, `${name}.out`), 'utf8')
      .split('\n')
      .slice(0, -1)
  } catch {
    return []
  }
}
const page = async (path: string) => (await fetch(`${url}${path}`)).text()
const starts = () => said('Started').length
const said = (words: string) => daemonRig.lines.filter(({ sentence }) => sentence.includes(words))

function start({ tracing, loaded = load() }: { tracing?: Tracing; loaded?: LoadedConfig } = {}): void {
  stopping = new AbortController()
  url = ''
  const environment = { ...daemonRig.environment, tracing }
  const nextSetup = reloading({
    ...{ file, clock: daemonRig.clock, references, loaded, load, environmentOf: () => environment },
    onHangup: (listener) => void (hangUp = listener),
  })
  daemon = runDaemon({ config: loaded.config, environment }, stopping.signal, {
    nextSetup,
    started: (where) => void (url = where),
  })
  daemon.catch(() => undefined)
}

beforeEach(async () => {
  daemonRig = openDaemonRig()
  file = join(daemonRig.folder, 'auditferry.yaml')
  writeFileSync(file, text('one'))
  start()
  await until(() => linesOf('one').length === 20, 'the first delivery')
})

afterEach(async () => {
  stopping.abort()
  await daemon.catch(() => undefined)
  daemonRig.remove()
})

test('a journal that fails to close ends the daemon with that error, and closes the listener', async () => {
  stopping.abort()
  await daemon
  const failed = new ConnectorError('disk_failed', 'the disk failed')
  const journal = (opened: Journal): Journal =>
    new Proxy(opened, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (name === 'close') return () => opened.close().then(() => Promise.reject(failed))
        return typeof member === 'function' ? (member.bind(target) as unknown) : member
      },
    })
  const tracing: Tracing = {
    journal,
    source: (source) => source,
    transport: (_, send) => send,
    sink: () => ({}),
    close: () => Promise.resolve(),
  }
  start({ tracing })
  await until(() => url !== '', 'its listener')
  stopping.abort()
  await expect(daemon).rejects.toBe(failed)
  await expect(page('livez')).rejects.toThrow('fetch failed')
})

describe('a journal whose file is moved away', () => {
  const [journal, aside] = ['a.db', 'aside.db']
  const move = (from: string, to: string) =>
    renameSync(join(daemonRig.folder, from), join(daemonRig.folder, to))
  const status = async () => JSON.parse(await page('status')) as { ok: boolean; summary: string }

  test('fails /status but no probe, since a restart would lose pending entries, and is logged once until it is back', async () => {
    move(journal, aside)
    await until(
      () => said('The journal file was moved, replaced or removed while in use').length > 0,
      'a word',
    )
    expect((await fetch(`${url}livez`)).status).toBe(200)
    const { ok, summary } = await status()
    expect(ok).toBe(false)
    expect(summary).toMatch(/a\.db is gone/)
    await daemonRig.clock.sleep(45_000)
    expect(said('The journal file was moved, replaced or removed while in use')).toHaveLength(1)
    move(aside, journal)
    await until(() => said('back in its place').length > 0, 'a good word')
    expect((await fetch(`${url}livez`)).status).toBe(200)
    expect((await status()).ok).toBe(true)
  })

  test.each(['gone', 'replaced'])(
    'while it is %s no new configuration is taken, since the daemon would read everything again',
    async (how) => {
      move(journal, aside)
      if (how === 'replaced') writeFileSync(join(daemonRig.folder, journal), '')
      writeFileSync(file, text('one', 'two').replace('127.0.0.1:0', `127.0.0.1:${await freePort()}`))
      hangUp()
      await until(() => said('is invalid, the previous one stays in use').length > 0, 'the refusal')
      expect((await fetch(`${url}livez`)).status).toBe(200)
      expect(String(said('is invalid, the previous one stays')[0]?.fields['error'])).toContain(
        'journal.path: The next start would not find the journal',
      )
      daemonRig.mock.add({})
      await until(() => linesOf('one').length === 21, 'delivery that goes on')
      expect(linesOf('two')).toEqual([])
      move(aside, journal)
      hangUp()
      await until(() => linesOf('two').length === 21, 'the new sink')
      expect(new Set(linesOf('one')).size).toBe(21)
      expect(linesOf('one')).toHaveLength(21)
    },
  )
})

describe('a valid configuration', () => {
  test('replaces the old one whole: the new sink gets all kept entries, the old one no duplicates', async () => {
    writeFileSync(file, text('one', 'two'))
    hangUp()
    await until(() => linesOf('two').length === 20, 'the new sink')
    daemonRig.mock.add({})
    await until(() => linesOf('one').length === 21 && linesOf('two').length === 21, 'both sinks')
    expect(new Set(linesOf('one')).size).toBe(21)
    expect(await page('metrics')).toContain('auditferry_config_last_reload_successful 1')
  })

  test('restarts the counters, but not the process and its start time', async () => {
    const report = async () => JSON.parse(await page('status')) as StatusReport
    const before = await report()
    expect(before.configured_at).toBe(before.started_at)
    for (const name of ['two', 'three']) {
      writeFileSync(file, text('one', name))
      hangUp()
      await until(() => linesOf(name).length === 20, name)
    }
    const after = await report()
    expect(after.started_at).toBe(before.started_at)
    expect(after.configured_at > before.configured_at).toBe(true)
    expect(after.sinks[0]?.accepted_entries).toBe(0)
  })

  test('is taken once per change, and not without a change', async () => {
    await daemonRig.clock.sleep(10_000)
    expect(said('takes over now')).toEqual([])
    writeFileSync(file, text('one', 'two'))
    await until(() => said('takes over now').length > 0, 'the change')
    await daemonRig.clock.sleep(15_000)
    expect(said('takes over now')).toHaveLength(1)
  })

  test('is noticed without a signal, once the file stops changing', async () => {
    writeFileSync(file, text('one', 'two'))
    await until(() => linesOf('two').length === 20, 'the new sink')
  })

  test('is noticed without a signal if a plain value changes in a referenced file', async () => {
    const named = join(daemonRig.folder, 'named')
    writeFileSync(named, `${daemonRig.folder}/two.out\n`)
    writeFileSync(file, text('one', 'two').replace(/path: \S*two\.out/, `path: "\${file:${named}}"`))
    await until(() => linesOf('two').length === 20 && starts() === 2, 'the file that is named')
    stopping.abort()
    await daemon
    start()
    await until(() => starts() === 3, 'the second start')
    for (const [i, name] of ['three', 'four'].entries()) {
      writeFileSync(named, `${daemonRig.folder}/${name}.out\n`)
      // Earlier, the old configuration might read the new entry.
      await until(() => starts() === 4 + i, name)
      expect(said('takes over now')).toHaveLength(2 + i)
      daemonRig.mock.add({})
      await until(() => linesOf(name).length === 1, `a line in ${name}`)
    }
    expect(said('is invalid, the previous one stays')).toEqual([])
  })

  test('is not reloaded for a changed secret: the daemon uses the new secret without a restart', async () => {
    const key = join(daemonRig.folder, 'key')
    writeFileSync(key, 'acme-key')
    writeFileSync(file, text('one').replace('api_key: acme-key', `api_key: "\${file:${key}}"`))
    await until(() => starts() === 2, 'the reference')
    loads = 0
    writeFileSync(key, 'another-key')
    await daemonRig.clock.sleep(15_000)
    expect([loads, said('takes over now').length, starts()]).toEqual([0, 1, 2])
  })

  test('that is still being written is not taken before it is complete', async () => {
    let looks = 0
    // The file changes at each look, however far apart a busy machine makes them.
    beforeLook = () => {
      if (++looks < 12) writeFileSync(file, `${text('half')}# ${'x'.repeat(looks)}`)
      else if (looks === 12) writeFileSync(file, text('one', 'two'))
    }
    onTestFinished(() => void (beforeLook = () => undefined))
    await until(() => linesOf('two').length === 20, 'the new sink')
    expect(linesOf('half')).toEqual([])
    expect(said('takes over')).toHaveLength(1)
  })

  test('can move the listener', async () => {
    const before = url
    const port = await freePort()
    writeFileSync(file, text('one').replace('127.0.0.1:0', `127.0.0.1:${port}`))
    hangUp()
    await until(() => said('Listening').length === 2, 'the new listener')
    url = `http://127.0.0.1:${port}/`
    await until(() => said('Started').length === 2, 'the second start')
    expect(await page('readyz')).toBe('ok\n')
    await expect(fetch(before)).rejects.toThrow()
  })

  test('can be followed by another, and one more', async () => {
    for (const name of ['two', 'three', 'four']) {
      writeFileSync(file, text('one', name))
      hangUp()
      await until(() => linesOf(name).length === 20, name)
    }
    expect(linesOf('one')).toHaveLength(20)
  })
})

/** A sink rejected an entry for good; the daemon goes on. */
async function rejectOne(): Promise<void> {
  stopping.abort()
  await daemon
  const journal = await openRegistered({
    ...{ path: `${daemonRig.folder}/a.db`, maxBytes: 2 ** 20, keepKeysMs: 1e9, keepDeliveredBytes: 0 },
    ...{ sinks: ['one'], clock: systemClock, log: logOf(), ballastBytes: 0 },
  })
  const { last = 0 } = await journal.append(part([spec(1)]))
  await journal.ack('one', {
    ...{ first: last, through: last, rejected: [{ seq: last, code: 'refused', reason: 'no' }] },
  })
  await journal.close()
  start()
  await until(() => said('Started').length === 2, 'the second start')
}

describe('a change between the first look at the files and the start', () => {
  /** Starts with the configuration read before `change`. */
  async function startAfter(change: () => void) {
    stopping.abort()
    await daemon
    const loaded = load()
    change()
    start({ loaded })
    await until(() => said('Started').length === 2, 'the second start')
  }

  test('is noticed without another save', async () => {
    await startAfter(() => writeFileSync(file, text('one', 'two')))
    await until(() => linesOf('two').length === 20, 'the new sink')
  })

  test('is none for a configuration from a pipe, which is read once', async () => {
    await startAfter(() => writeFileSync(file, ''))
    await daemonRig.clock.sleep(15_000)
    expect(said('is invalid, the previous one stays')).toEqual([])
    writeFileSync(file, text('one', 'two'))
    await until(() => linesOf('two').length === 20, 'the new sink')
  })
})

test('a hash key that changes while the first configuration opens counts as a change', async () => {
  const key = join(daemonRig.folder, 'hash')
  writeFileSync(key, 'a'.repeat(32))
  const hashed = `redact: [{ fields: [query], with: hash, key_file: ${key} }], type: file`
  writeFileSync(file, text('one').replace('type: file', hashed))
  let ask: () => void = () => undefined
  const loaded = load()
  const nextSetup = reloading({
    ...{ file, clock: daemonRig.clock, references, loaded, load, environmentOf: () => daemonRig.environment },
    onHangup: (listener) => void (ask = listener),
  })
  writeFileSync(key, 'b'.repeat(32))
  const current = {
    ...{ config: loaded.config, environment: daemonRig.environment },
    ...{ prepareFor: async () => undefined, reportRejected: () => undefined },
  }
  const next = nextSetup(current, AbortSignal.timeout(15_000))
  ask()
  expect(await next).toHaveProperty('config')
})

describe('the running configuration', () => {
  test('decides which dead letters its sinks still take: only those are put back', async () => {
    await rejectOne()
    const changeTo = async (content: string) => {
      const before = said('takes over now').length
      writeFileSync(file, content)
      hangUp()
      await until(() => said('takes over now').length > before, 'the change')
      await until(() => said('Started').length === before + 3, 'the start under it')
    }
    await changeTo(text('one').replace('type: file', "type: file, types: ['!user:create_query']"))
    const client = (await connectControl(`${daemonRig.folder}/a.db`)) ?? expect.fail('no daemon')
    expect(await client.retry({})).toEqual({ count: 0, left: [{ sink: 'one', why: 'types', count: 1 }] })
    expect(await client.deadLetters({})).toHaveLength(1)
    await changeTo(text('one'))
    expect(await client.retry({})).toEqual({ count: 1, left: [] })
    await until(() => linesOf('one').length === 21, 'the letter')
  })

  test('answers every command, also during a takeover', async () => {
    const client = (await connectControl(`${daemonRig.folder}/a.db`)) ?? expect.fail('no daemon')
    const faults: unknown[] = []
    let isOver = false
    const ask = async () => {
      while (!isOver) {
        await client.storedDays(undefined).catch((error: unknown) => faults.push(error))
        await systemClock.sleep(1)
      }
    }
    const asking = Promise.all(Array.from({ length: 4 }, ask))
    for (const name of ['two', 'three', 'four']) {
      writeFileSync(file, text('one', name))
      hangUp()
      await until(() => linesOf(name).length === 20, name)
    }
    isOver = true
    await asking
    expect(faults).toEqual([])
  })

  test('is kept if a signal or an equivalent file changes nothing, and the log says so', async () => {
    hangUp()
    await until(() => said('nothing changes').length === 1, 'the word')
    writeFileSync(file, `# the same\n${text('one')}`)
    await until(() => said('nothing changes').length === 2, 'the word')
    expect([said('Started').length, said('takes over now').length]).toEqual([1, 0])
  })

  test('is kept if the file is restored after a faulty one, and the fault is no longer reported', async () => {
    writeFileSync(file, 'nonsense: [')
    hangUp()
    await until(() => said('is invalid, the previous one stays').length > 0, 'the refusal')
    writeFileSync(file, text('one'))
    await until(() => said('nothing changes').length === 1, 'the word')
    expect(said('Started')).toHaveLength(1)
    expect(await page('metrics')).toContain('auditferry_config_last_reload_successful 1')
    expect(await page('status')).toContain('"config_refused_at":null')
  })

  test('is replaced if a secret comes from another file, or if a hash key changes', async () => {
    const [first, second] = ['first', 'second'].map((name) => join(daemonRig.folder, name)) as [
      string,
      string,
    ]
    for (const path of [first, second]) writeFileSync(path, 'acme-key')
    const keyed = (path: string) => text('one').replace('api_key: acme-key', `api_key: "\${file:${path}}"`)
    writeFileSync(file, keyed(first))
    await until(() => said('takes over now').length === 1, 'the first place')
    writeFileSync(file, keyed(second))
    await until(() => said('takes over now').length === 2, 'the second place')
    const key = join(daemonRig.folder, 'hash')
    writeFileSync(key, 'a'.repeat(32))
    const hashed = `redact: [{ fields: [query], with: hash, key_file: ${key} }], type: file`
    writeFileSync(file, keyed(second).replace('type: file', hashed))
    await until(() => said('takes over now').length === 3, 'the key')
    // The start records which key is in use.
    await until(() => said('Started').length === 4, 'the start with it')
    writeFileSync(key, 'b'.repeat(32))
    hangUp()
    await until(() => said('takes over now').length === 4, 'the other key')
    hangUp()
    await until(() => said('nothing changes').length === 1, 'the word')
  })
})

describe('a faulty configuration', () => {
  test.each([
    ['with an unknown key', () => text('one').replace('max_bytes: 1MiB', 'max_byte: 1MiB'), 'max_byte'],
    ['with another journal', () => text('one').replace('a.db', 'b.db'), 'journal.path'],
    [
      'with a sink that writes to a device',
      () => text('one').replace(/path: \S*one\.out/, 'path: /dev/null'),
      'device',
    ],
    ['with a listen address in use', () => text('one').replace(':0"', `:${taken.port}"`), 'in use'],
  ])('%s is refused and reported, and the old one goes on', async (_, faulty, word) => {
    writeFileSync(file, faulty())
    hangUp()
    await until(() => said('is invalid, the previous one stays').length > 0, 'the refusal')
    expect(String(said('is invalid, the previous one stays')[0]?.fields['error'])).toContain(word)
    const { config_refused_why: why } = JSON.parse(await page('status')) as { config_refused_why: string }
    expect(why).toContain(word)
    expect(await page('metrics')).toContain('auditferry_config_last_reload_successful 0')
    daemonRig.mock.add({})
    await until(() => linesOf('one').length === 21, 'delivery goes on')
  })

  test('is shown on /status and in its summary, until another one is taken', async () => {
    writeFileSync(file, 'nonsense: [')
    hangUp()
    await until(() => said('is invalid, the previous one stays').length > 0, 'the refusal')
    const report = JSON.parse(await page('status')) as { summary: string; errors: { part: string }[] }
    expect(report.summary).toMatch(
      /^The changed configuration is invalid, the previous one stays in use: \S*auditferry\.yaml:\d+:\d+: .*not valid YAML.*; [a-z]/,
    )
    expect(report.errors.map(({ part }) => part)).toEqual(['configuration'])
  })

  test('is tried again although it did not change, since a referenced file may exist by now', async () => {
    const key = join(daemonRig.folder, 'key')
    writeFileSync(file, text('one', 'two').replace('api_key: acme-key', `api_key: "\${file:${key}}"`))
    await until(() => said('is invalid, the previous one stays').length > 0, 'the refusal')
    writeFileSync(key, 'acme-key')
    await until(() => linesOf('two').length === 20, 'the new sink')
    expect(said('is invalid, the previous one stays')).toHaveLength(1)
  })

  test('is logged once and after each signal, and a fixed one is taken', async () => {
    writeFileSync(file, 'nonsense: [')
    await until(() => said('is invalid, the previous one stays').length > 0, 'the refusal')
    // After more tries of the same file, one every ten seconds.
    loads = 0
    await until(() => loads >= 3, 'tries of the same file')
    expect(said('is invalid, the previous one stays')).toHaveLength(1)
    hangUp()
    await until(() => said('is invalid, the previous one stays').length > 1, 'an answer to who asks')
    writeFileSync(file, text('one', 'two'))
    await until(() => linesOf('two').length === 20, 'the new sink')
    expect(await page('metrics')).toContain('auditferry_config_last_reload_successful 1')
  })
})

test('a reload does not check the whole journal again, since commands wait meanwhile', async () => {
  const pragmas = vi.spyOn(Sqlite.prototype, 'pragma')
  try {
    writeFileSync(file, text('one', 'two'))
    hangUp()
    await until(() => linesOf('two').length === 20, 'the new sink')
    const sources = pragmas.mock.calls.map(([source]) => source)
    expect(sources).toContain('journal_mode = WAL')
    expect(sources.filter((source) => source.startsWith('quick_check'))).toEqual([])
  } finally {
    pragmas.mockRestore()
  }
})

test('with too many open files no change is assumed, the problem is logged, and a signal is answered later', async () => {
  const before = loads
  outOfFiles = true
  try {
    hangUp()
    await until(() => said('cannot be checked for changes').length > 0, 'a word')
    await daemonRig.clock.sleep(10_000)
    expect(said('cannot be checked for changes').map(({ fields }) => fields['error'])).toEqual([
      'too many files are open; raise the limit (ulimit -n, LimitNOFILE)',
    ])
    expect([loads, said('refused').length, said('read again and').length]).toEqual([before, 0, 0])
  } finally {
    outOfFiles = false
  }
  await until(() => said('is the one that runs').length > 0, 'the answer')
})

describe('a stop starts nothing new', () => {
  /** Runs with a next configuration ready. Returns what it logged and how many journals it opened. */
  async function reported(
    ending: AbortController,
    hooks: Partial<Record<'onOpen' | 'onStop' | 'onTakeover', () => void>>,
  ) {
    stopping.abort()
    await daemon
    daemonRig.lines.length = 0
    let journals = 0
    let closed = 0
    const opening = (journal: Journal): Journal => {
      journals++
      onOpen?.()
      const close = async () => {
        await journal.close()
        closed++
      }
      return withMethods(journal, { close })
    }
    const { onOpen, onStop, onTakeover } = hooks
    const tracing: Tracing = {
      ...{ journal: opening, source: (source) => source, transport: (_, send) => send },
      ...{ sink: () => ({}), close: () => Promise.resolve() },
    }
    const log: Log = {
      ...daemonRig.environment.log,
      info: (sentence, fields) => {
        daemonRig.environment.log.info(sentence, fields)
        if (sentence === 'Stopping') onStop?.()
      },
    }
    const setup = { config: load().config, environment: { ...daemonRig.environment, log, tracing } }
    await runDaemon(setup, ending.signal, { nextSetup: async () => setup, takesOver: () => onTakeover?.() })
    const started = daemonRig.lines.filter(({ sentence }) => /^(Delivering|Started)$/.test(sentence))
    return {
      journals,
      closed,
      started: started.length,
      stopped: said('Stopped: everything is delivered').length,
    }
  }

  test('while the old configuration stops: the next one is not opened', async () => {
    const ending = new AbortController()
    const seen = await reported(ending, { onStop: () => ending.abort() })
    expect(seen).toEqual({ journals: 1, closed: 1, started: 2, stopped: 1 })
  })

  test('while the next one opens: it is closed, and its loops do not start', async () => {
    const ending = new AbortController()
    const seen = await reported(ending, { onTakeover: () => ending.abort() })
    expect(seen).toEqual({ journals: 2, closed: 2, started: 2, stopped: 1 })
  })

  test('while the first one opens: no listener and no loop starts', async () => {
    const ending = new AbortController()
    const seen = await reported(ending, { onOpen: () => ending.abort() })
    expect(seen).toEqual({ journals: 1, closed: 1, started: 0, stopped: 0 })
    expect(said('Stopped before anything had begun')).toHaveLength(1)
    expect(said('Listening')).toEqual([])
  })

  test('before the first one opens: it is not opened', async () => {
    const ending = new AbortController()
    ending.abort()
    expect(await reported(ending, {})).toEqual({ journals: 0, closed: 0, started: 0, stopped: 0 })
  })
})

test('an error that ends the daemon after a reload is logged by the new configuration', async () => {
  stopping.abort()
  await daemon
  const first = new LogLines()
  const second = new LogLines()
  const network = () => {
    throw new ConnectorError('disk_failed', 'planted')
  }
  const config = load().config
  const next = { config, environment: { ...daemonRig.environment, log: second, network } }
  const ending = new AbortController()
  const over = withErrorReport({}, async (useLog) => {
    useLog(first)
    const environment = { ...daemonRig.environment, log: first }
    const takesOver = ({ environment: { log } }: { environment: { log: Log } }) => useLog(log)
    await runDaemon({ config, environment }, ending.signal, { nextSetup: async () => next, takesOver })
    return 0
  })
  expect(await over).toBe(1)
  const reported = ({ lines }: LogLines) => lines.filter((line) => line.includes('planted'))
  expect([reported(first), reported(second)]).toEqual([
    [],
    ['The daemon cannot continue and stops {"code":"disk_failed","reason":"planted"}'],
  ])
})

test.each([new TypeError('a bug'), new ConnectorError('disk_failed', 'EIO')])(
  "an error that is not the configuration's stops the daemon (%s)",
  async (bug) => {
    let ask: () => void = () => undefined
    const nextSetup = reloading({
      ...{
        file,
        clock: daemonRig.clock,
        references,
        loaded: load(),
        environmentOf: () => daemonRig.environment,
      },
      load: () => {
        throw bug
      },
      onHangup: (listener) => void (ask = listener),
    })
    const current = {
      ...{ config: load().config, environment: daemonRig.environment },
      ...{ prepareFor: async () => undefined, reportRejected: () => expect.fail('refused') },
    }
    const next = nextSetup(current, AbortSignal.timeout(10_000))
    ask()
    await expect(next).rejects.toBe(bug)
  },
)

let taken: { port: number; close(): void }
beforeEach(async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  taken = { port: (server.address() as AddressInfo).port, close: () => void server.close() }
})
afterEach(() => taken.close())

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  await systemClock.sleep(0)
  return port
}
