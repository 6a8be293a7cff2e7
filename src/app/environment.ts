// The environment as the daemon uses it.
import type { Clock, Random } from '../core/clock.ts'
import type { Connect, Disk, OpenDatagrams, TlsOptions, Transport } from '../contracts/platform.ts'
import type { Log } from '../core/log.ts'
import type { Tracing } from '../contracts/reporter.ts'

export interface Network {
  readonly send: Transport
  close(): Promise<void>
}

export interface Environment {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly disk: Disk
  /** A workspace has no `tls` keys: its certificate errors name the environment's variables. */
  network(to: 'api' | 'sink', tls?: TlsOptions): Network
  readonly connect: Connect
  readonly datagrams: OpenDatagrams
  print(bytes: Uint8Array): Promise<void>
  /** Injected, like everything that takes time: the process may end in the middle. */
  gzip(bytes: Uint8Array): Promise<Uint8Array>
  /** Absent: no tracing, and nothing is wrapped. */
  readonly tracing?: Tracing | undefined
}
