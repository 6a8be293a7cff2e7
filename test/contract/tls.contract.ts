// What every sink with TLS promises: no byte to a peer without proof of its identity, and new files used without a restart.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { ConnectorError } from '../../src/core/errors.ts'
import type { TlsOptions } from '../../src/contracts/platform.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { certificate, type Issued } from '../fakes/certificates.ts'
import { part, spec, uuid } from './journal-parts.ts'
import { type CaseWith, given } from './means.ts'
import { openParts, type Start } from './rig.ts'

/** What the receiver shows, and from which clients it requires a certificate. */
export interface Shown extends Issued {
  /** PEM of the authority whose clients it accepts; absent: it requires no certificate. */
  readonly clientCa?: string
}

interface SecuredBench {
  /** A process with this sink, in real time and over real sockets. */
  readonly start: Start
  received(): readonly string[] | Promise<readonly string[]>
  /** The receiver restarts at the same address with another certificate. */
  show(shown: Shown): Promise<void>
  close(): Promise<void>
}

/** A receiver at 127.0.0.1 that shows `shown`, and the sink's options for it: the files are made by the suite. */
export type Secured = (shown: Shown, tls: TlsOptions) => Promise<SecuredBench>

const HOST = '127.0.0.1'
const HOUR_MS = 3_600_000
const never = new AbortController().signal
const authority = certificate('Contract authority')
const stranger = certificate('Unknown authority')
const good = certificate(HOST, authority)

const unworthy: readonly (readonly [string, Issued])[] = [
  ['has expired', certificate(HOST, authority, Date.now() - 48 * HOUR_MS, Date.now() - HOUR_MS)],
  ['is not valid yet', certificate(HOST, authority, Date.now() + HOUR_MS)],
  ['bears another name', certificate('other.test', authority)],
  ['comes from an unknown authority', certificate(HOST, stranger)],
]

interface Files {
  readonly tls: TlsOptions
  put(client: Issued): void
}

function makeFiles(): Files {
  const folder = mkdtempSync(join(tmpdir(), 'auditferry-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = (name: string) => join(folder, name)
  writeFileSync(path('ca.pem'), authority.cert)
  const put = ({ cert, key }: Issued) => {
    writeFileSync(path('cert.pem'), cert)
    writeFileSync(path('key.pem'), key)
  }
  return { put, tls: { ca_file: path('ca.pem'), cert_file: path('cert.pem'), key_file: path('key.pem') } }
}

/** Steps of one process over real time: the next one is made by hand, so that no wait is needed. */
async function openSteps(name: string, bench: SecuredBench) {
  onTestFinished(() => bench.close())
  const parts = await openParts(name, systemClock, { maxEntries: 10 })
  await parts.journal.append(part([spec(1), spec(2), spec(3)]))
  const { stepper, sink } = bench.start(parts)
  onTestFinished(() => sink.close())
  const pending = () => parts.journal.stats().entries
  return {
    pending,
    fails: async (): Promise<ConnectorError> => {
      for (let steps = 0; steps < 20; steps++) {
        const error = await stepper.step(never).then(() => undefined, (each: unknown) => each) // prettier-ignore
        if (error === undefined) continue
        expect(error).toBeInstanceOf(ConnectorError)
        return error as ConnectorError
      }
      throw new Error('nothing failed')
    },
    /** A returned receiver may be noticed by one failure more, of a connection that died with the old one. */
    succeeds: async (): Promise<void> => {
      for (let steps = 0; steps < 20 && pending() > 0; steps++)
        await stepper.step(never).catch(() => undefined)
      expect(pending()).toBe(0)
    },
  }
}

interface TlsBench {
  readonly name: string
  readonly secured?: Secured | undefined
}

export function tlsContract(setUp: () => TlsBench, caseWith: CaseWith): void {
  for (const [what, shown] of unworthy)
    caseWith('secured')(
      `a receiver whose certificate ${what} gets nothing; with a good one it gets all`,
      async () => {
        const { name, secured: absent } = setUp()
        const secured = given(absent)
        const files = makeFiles()
        const bench = await secured(shown, { ca_file: files.tls.ca_file })
        const steps = await openSteps(name, bench)
        for (let tries = 0; tries < 2; tries++) {
          const error = await steps.fails()
          expect(error).toMatchObject({ code: 'tls_invalid', action: 'block' })
          expect(error.message).toMatch(/\w \w/)
        }
        expect(await bench.received()).toEqual([])
        expect(steps.pending()).toBe(3)
        await bench.show(good)
        await steps.succeeds()
        expect(await bench.received()).toEqual([uuid(1), uuid(2), uuid(3)])
      },
    )

  caseWith('secured')(
    'with a refused client certificate nothing is acknowledged; a new one in its file is used without a restart',
    async () => {
      const { name, secured: absent } = setUp()
      const secured = given(absent)
      const files = makeFiles()
      files.put(certificate('agent', stranger))
      const bench = await secured({ ...good, clientCa: authority.cert }, files.tls)
      const steps = await openSteps(name, bench)
      expect(['retry', 'block']).toContain((await steps.fails()).action)
      expect(await bench.received()).toEqual([])
      expect(steps.pending()).toBe(3)
      files.put(certificate('agent', authority))
      await steps.succeeds()
      expect(new Set(await bench.received())).toEqual(new Set([uuid(1), uuid(2), uuid(3)]))
    },
  )
}
