// Syslog over TCP, TLS and UDP against rsyslog and syslog-ng: they receive what was sent, whole and in its parts, and what a kill cost comes again.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import type { Format, Sink } from '../../src/contracts/sink.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openDatagrams } from '../../src/platform/datagrams.ts'
import { connectSocket } from '../../src/platform/sockets.ts'
import { sinkKinds } from '../../src/sinks/index.ts'
import { certificate } from '../fakes/certificates.ts'
import { linesOf, type MadeEntry, rawFormat, runOf, someEntries } from '../fakes/lines.ts'
import { sinkDeps } from '../fakes/sink-deps.ts'
import { freePort, until } from './receivers/ports.ts'
import { foundRsyslog, rsyslog } from './receivers/rsyslog.ts'
import type { Receiver } from './receivers/server.ts'
import { foundSyslogNg, syslogNg } from './receivers/syslog-ng.ts'

const never = new AbortController().signal
const HOST = '127.0.0.1'
let folder = ''
let receivers: Receiver[] = []
let sinks: Sink[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'auditferry-syslog-'))
})

afterEach(async () => {
  for (const sink of sinks) await sink.close()
  for (const receiver of receivers) await receiver.stop()
  receivers = []
  sinks = []
  rmSync(folder, { recursive: true, force: true })
})

async function started(receiver: Promise<Receiver>): Promise<Receiver> {
  const begun = await receiver
  receivers.push(begun)
  await begun.start()
  return begun
}

function open(address: string, more: object = {}): Sink {
  const options = sinkKinds.syslog.options.parse({ address, ...more })
  const deps = sinkDeps({ clock: systemClock, connect: connectSocket, datagrams: openDatagrams })
  const sink = sinkKinds.syslog.open('siem', options, deps)
  sinks.push(sink)
  return sink
}

async function deliver(sink: Sink, made: readonly MadeEntry[], format: Format = rawFormat): Promise<void> {
  const lines = linesOf(runOf(made), sink.frame, format)
  expect(await sink.deliver({ lines, detail: '', possibleDuplicate: false }, never)).toEqual({
    acknowledged: lines.count,
    rejected: [],
  })
}

/** Tries until it is taken, like the dispatcher. */
async function runDispatcher(sink: Sink, made: readonly MadeEntry[]): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    try {
      await deliver(sink, made)
      return
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      await pause(25)
    }
  }
  throw new Error('never delivered')
}

interface Taken {
  readonly pri: string
  readonly timereported: string
  readonly hostname: string
  readonly 'app-name': string
  readonly msgid: string
  readonly 'structured-data': string
  readonly msg: string
}

/** A line that a kill cut short has the next one behind it: what counts is the whole one. */
const wholeOf = (line: string) => line.slice(Math.max(0, line.lastIndexOf('{"pri":"')))
const takenBy = (receiver: Receiver) => receiver.lines().map((line) => JSON.parse(wholeOf(line)) as Taken)
const idIn = (data: string) => /\bid="([^"]+)"/.exec(data)?.[1] ?? ''
const idsTaken = (receiver: Receiver) => takenBy(receiver).map((each) => idIn(each['structured-data']))
const idsOf = (made: readonly MadeEntry[]) => made.map(({ id }) => id)

const authority = certificate('authority')
const server = { ...certificate(HOST, authority), ca: authority.cert }
function filesOf(client = certificate('agent', authority)) {
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  return {
    ca_file: put('own-ca.pem', authority.cert),
    cert_file: put('own.pem', client.cert),
    key_file: put('own.key', client.key),
  }
}

describe.skipIf(foundRsyslog.missing !== undefined)('rsyslog', () => {
  test.each(['tcp', 'udp', 'tls'] as const)(
    'receives over %s what was sent, field by field',
    async (transport) => {
      const receiver = await started(
        rsyslog({ folder, transport, ...(transport === 'tls' ? { tls: server } : {}) }),
      )
      const sink = open(
        `${transport}://${HOST}:${receiver.port}`,
        transport === 'tls' ? { tls: filesOf() } : {},
      )
      const made = someEntries(transport === 'udp' ? 50 : 2_000)
      await deliver(sink, made)
      await until('all of it', () => receiver.lines().length >= made.length)
      expect(idsTaken(receiver)).toEqual(idsOf(made))
      const raw = Buffer.from(runOf(made).entries.raw(0)).toString()
      expect(takenBy(receiver)[0]).toMatchObject({
        ...{ pri: '133', hostname: 'acme.example.com', 'app-name': 'auditferry', msgid: 'audit' },
        timereported: '2026-11-21T10:00:00.123456Z',
        'structured-data': `[auditferry@32473 workspace="acme" source="audit" id="${made[0]?.id ?? ''}"]`,
      })
      expect(takenBy(receiver)[0]?.msg.trim()).toBe(raw)
    },
  )

  test('over mutual TLS accepts a client with a certificate of its authority, and no other; check reports it', async () => {
    const receiver = await started(rsyslog({ folder, transport: 'tls', tls: { ...server, mutual: true } }))
    const address = `tls://${HOST}:${receiver.port}`
    const tls = filesOf(certificate('stranger'))
    const sink = open(address, { tls })
    expect((await sink.check(never))[0]).toMatchObject({ ok: false })
    await expect(deliver(sink, someEntries(3))).rejects.toBeInstanceOf(ConnectorError)
    expect(receiver.lines()).toEqual([])
    filesOf()
    expect((await sink.check(never)).map(({ ok }) => ok)).toEqual([true, true, true])
    await runDispatcher(sink, someEntries(3))
    await until('all of it', () => receiver.lines().length === 3)
  })

  test('receives each part of a split entry as a message of its own, and together they are the entry', async () => {
    const receiver = await started(rsyslog({ folder, transport: 'tcp' }))
    const sink = open(`tcp://${HOST}:${receiver.port}`, { max_message_bytes: 2048 })
    const raw = JSON.stringify({ id: 'big', text: 'zoë 😀 \\ "\n'.repeat(2_000) })
    await deliver(sink, [{ id: 'before' }, { id: 'big', raw }, { id: 'after' }])
    await until('the last', () => idsTaken(receiver).includes('after'))
    const parts = takenBy(receiver).filter((each) => idIn(each['structured-data']) === 'big')
    expect(parts.length).toBeGreaterThan(10)
    // The text begins behind the one space that ends the structured data.
    expect(parts.map(({ msg }) => msg.replace(/^ /, '')).join('')).toBe(raw)
  })

  test('finds no message that an entry forged, over TCP and over UDP', async () => {
    for (const transport of ['tcp', 'udp'] as const) {
      const receiver = await started(rsyslog({ folder, transport }))
      const sink = open(`${transport}://${HOST}:${receiver.port}`)
      const evil = 'x\n<13>1 - - - - - - forged\r\n30 <13>1 - - - - - - forged\0<13>forged'
      const made = [{ id: 'a"] \n<13>1 - - - - - - forged' }, { id: 'last' }]
      await deliver(sink, made, (_run, _index, out) => out.copy(Buffer.from(evil)))
      await until('both', () => receiver.lines().length >= 2)
      await pause(50)
      expect(takenBy(receiver).map((each) => each['app-name'])).toEqual(['auditferry', 'auditferry'])
    }
  })

  test('accepts RFC 3164 too, with the time as UTC', async () => {
    const receiver = await started(rsyslog({ folder, transport: 'tcp' }))
    const sink = open(`tcp://${HOST}:${receiver.port}`, { rfc: 3164, facility: 'audit', hostname: 'agent' })
    await deliver(sink, [{ id: 'a', raw: '{"id":"a"}' }])
    await until('it', () => receiver.lines().length === 1)
    expect(takenBy(receiver)[0]).toMatchObject({ pri: '109', hostname: 'agent', 'app-name': 'auditferry' })
    expect(takenBy(receiver)[0]?.msg).toContain('{"id":"a"}')
  })

  test('in Debian’s configuration keeps 8096 bytes of a message and cuts the rest silently', async () => {
    const receiver = await started(rsyslog({ folder, transport: 'tcp' }))
    const filled = async (most: number) => {
      const sink = open(`tcp://${HOST}:${receiver.port}`, { max_message_bytes: most })
      const id = `fill-${most}`
      const raw = (fill: number) => JSON.stringify({ id, text: 'x'.repeat(fill) })
      const { bytes } = linesOf(runOf([{ id, raw: raw(0) }]), sink.frame)
      const size = Number(/^\d+/.exec(Buffer.from(bytes).toString())?.[0])
      await deliver(sink, [{ id, raw: raw(most - size) }, { id: `end-${most}` }])
      await until('the end', () => idsTaken(receiver).includes(`end-${most}`))
    }
    const sizes = () => receiver.lines().map((line) => (JSON.parse(line) as { rawmsg: string }).rawmsg.length)
    await filled(8096)
    expect(sizes()[0]).toBe(8096)
    await filled(8192)
    expect(sizes()).toHaveLength(4)
    // docs/sinks/syslog.md says what to set, here or there.
    expect(sizes()[2]).toBe(8096)
  })

  test('that is killed again and again misses nothing that was acknowledged', async () => {
    const receiver = await started(rsyslog({ folder, transport: 'tcp' }))
    const sink = open(`tcp://${HOST}:${receiver.port}`)
    const made = someEntries(4_000)
    for (let at = 0; at < made.length; at += 100) {
      await runDispatcher(sink, made.slice(at, at + 100))
      if (at % 1_000 !== 0) continue
      await receiver.stop()
      await receiver.start()
    }
    await until('all of it', () => new Set(idsTaken(receiver)).size === made.length)
    const first = [...new Set(idsTaken(receiver))]
    expect(first).toEqual(idsOf(made))
  })
})

describe.skipIf(foundSyslogNg.missing !== undefined)('syslog-ng', () => {
  test.each(['tcp', 'udp', 'tls'] as const)(
    'keeps over %s every field of what was sent',
    async (transport) => {
      const tls = transport === 'tls' ? { tls: { ...server, mutual: true } } : {}
      const receiver = await started(syslogNg({ folder, transport, ...tls }))
      const sink = open(
        `${transport}://${HOST}:${receiver.port}`,
        transport === 'tls' ? { tls: filesOf() } : {},
      )
      const made = someEntries(transport === 'udp' ? 50 : 2_000)
      await deliver(sink, made)
      await until('all of it', () => receiver.lines().length >= made.length)
      const fields = receiver.lines().map((line) => line.split('\t'))
      expect(fields.map(([, , , , data = '']) => idIn(data))).toEqual(idsOf(made))
      const raw = Buffer.from(runOf(made).entries.raw(0)).toString()
      expect([fields[0]?.[0], ...(fields[0] ?? []).slice(2, 4), fields[0]?.[5]]).toEqual([
        '133',
        'acme.example.com',
        'auditferry',
        raw,
      ])
      expect(Date.parse(fields[0]?.[1] ?? '')).toBe(Date.parse('2026-11-21T10:00:00.123Z'))
      expect(fields[0]?.[1]).toContain('.123456')
    },
  )

  test('receives a message of its largest size whole', async () => {
    const receiver = await started(syslogNg({ folder, transport: 'tcp' }))
    const sink = open(`tcp://${HOST}:${receiver.port}`, { max_message_bytes: '64KiB' })
    const raw = JSON.stringify({ id: 'big', text: 'x'.repeat(65_000) })
    await deliver(sink, [{ id: 'big', raw }, { id: 'after' }])
    await until('both', () => receiver.lines().length === 2)
    expect(receiver.lines()[0]?.endsWith(raw)).toBe(true)
  })
})

test('is unreachable without a listener', async () => {
  const sink = open(`tcp://${HOST}:${await freePort()}`)
  await expect(deliver(sink, someEntries(1))).rejects.toMatchObject({ code: 'unreachable' })
})
