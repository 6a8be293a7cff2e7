// Syslog as a sink: one entry, one message (or numbered parts of one), over UDP, TCP, TLS or RELP.
import { ConnectorError } from '../../core/errors.ts'
import type {
  Assurance,
  CheckResult,
  Delivery,
  Frame,
  Lines,
  Outcome,
  Rejection,
  Sink,
} from '../../contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../../contracts/sink-kind.ts'
import { hostPort } from '../../contracts/platform.ts'
import { tlsFiles } from '../kit/options.ts'
import { Expiry } from '../kit/certificate-expiry.ts'
import { syslogFrame } from './frame.ts'
import type { OversizeBytes } from './frame.ts'
import { assuranceOf, options, type Receiver, receiverOf, type SyslogOptions } from './options.ts'
import { OverRelp } from './relp.ts'
import type { Session, SessionOptions } from './session.ts'
import { StreamSession } from './stream.ts'
import { DatagramSession } from './udp.ts'

function sessionOf({ scheme, ...to }: Receiver, given: SyslogOptions, deps: SinkDeps): Session {
  const where = hostPort(to)
  const tls = scheme === 'tls' || scheme === 'relp+tls' ? (given.tls ?? {}) : undefined
  const expiry = new Expiry(where, deps)
  const session: SessionOptions = { to, where, tls, lingerMs: given.tcp_linger, expiry, deps }
  if (scheme === 'udp') return new DatagramSession(session)
  return scheme === 'tcp' || scheme === 'tls' ? new StreamSession(session) : new OverRelp(session)
}

class SyslogSink implements Sink {
  readonly type = 'syslog'
  readonly assurance: Assurance
  readonly name: string
  readonly frame: Frame
  readonly shape: string
  readonly #session: Session
  readonly #oversizeBytes: OversizeBytes = new Map()
  readonly #given: SyslogOptions

  constructor(name: string, given: SyslogOptions, deps: SinkDeps) {
    const receiver = receiverOf(given.address)
    if (!receiver) throw new Error(`${given.address} is not the address of a syslog receiver`)
    const { rfc, facility, app_name, hostname, enterprise_id, max_message_bytes, oversize } = given
    this.name = name
    this.assurance = assuranceOf(given)
    const shape = { rfc, facility, app_name, hostname, enterprise_id, max_message_bytes, oversize }
    this.frame = syslogFrame({ ...shape, hostOf: (workspace) => deps.hostOf(workspace) }, this.#oversizeBytes)
    this.shape = JSON.stringify(shape)
    this.#session = sessionOf(receiver, given, deps)
    this.#given = given
  }

  get maxEntries() {
    return this.#session.maxEntries
  }

  async deliver({ lines }: Delivery, signal: AbortSignal): Promise<Outcome> {
    if (signal.aborted) throw new ConnectorError('aborted', 'syslog: stopped before the batch')
    if (lines.count === 0) return { acknowledged: 0, rejected: [] }
    const { acknowledged, rejected } = await this.#session.deliver(lines, signal)
    const all = [...this.#unsendable(lines, acknowledged), ...rejected]
    return { acknowledged, rejected: all.sort((one, other) => one.index - other.index) }
  }

  /** The frame writes nothing for an entry that may not be sent at its size. */
  #unsendable({ ends, seqs }: Lines, acknowledged: number): readonly Rejection[] {
    const { max_message_bytes: most, oversize } = this.#given
    const advice =
      oversize === 'dead_letter'
        ? '. Increase max_message_bytes, or set oversize to split or compact; then run auditferry dead-letters retry'
        : ', and cannot be split: its header leaves no room for text, or its parts exceed 64 MiB together. Increase max_message_bytes; then run auditferry dead-letters retry'
    const found: Rejection[] = []
    for (let index = 0; index < acknowledged; index++) {
      if (ends[index] !== (ends[index - 1] ?? 0)) continue
      const bytes = this.#oversizeBytes.get(seqs[index] ?? 0)
      const size =
        bytes === undefined ? 'its message is' : `its message has ${bytes} bytes including the syslog header,`
      const reason = `${size} more than max_message_bytes (${most})${advice}`
      found.push({ index, code: 'too_large', reason, own: true })
    }
    return found
  }

  async probe(signal: AbortSignal): Promise<void> {
    await this.#session.probe?.(signal)
  }

  check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    return this.#session.check(signal)
  }

  close(): Promise<void> {
    return this.#session.close()
  }
}

export const syslog: SinkKind<typeof options> = {
  options,
  assurance: assuranceOf,
  marksReplay: ({ rfc }) => rfc === 5424,
  to: ({ address }) => [new URL(address).host],
  files: ({ tls }) => tlsFiles(tls),
  idle: ({ address }) =>
    /^(?:tcp|tls):/.test(address)
      ? []
      : [{ field: 'tcp_linger', why: 'has an effect with tcp:// and tls:// only: leave it out' }],
  open: (name, given, deps) => new SyslogSink(name, given, deps),
}
