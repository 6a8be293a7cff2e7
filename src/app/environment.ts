// The world as the daemon may touch it.
import type { Clock, Random } from '../core/clock.ts'
import type { Connect, Disk, OpenDatagrams, TlsOptions, Transport } from '../contracts/platform.ts'
import type { Log } from '../core/log.ts'
import type { Tracing } from '../contracts/reporter.ts'

export interface Network {
  readonly send: Transport
  close(): Promise<void>
}

export interface Outside {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  /** A workspace has no `tls` keys: what it is told of a certificate names what is set around the process. */
  network(to: 'api' | 'sink', tls?: TlsOptions): Network
  readonly connect: Connect
  readonly datagrams: OpenDatagrams
  print(bytes: Uint8Array): Promise<void>
  /** From outside as all that takes a while: the process may end in the middle. */
  gzip(bytes: Uint8Array): Promise<Uint8Array>
  /** Absent: nobody looks, and nothing is put in between. */
  readonly tracing?: Tracing | undefined
}
