// The receivers for the network faults, each with its sink's settings: adding one is a line in the list.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { certificate } from '../fakes/certificates.ts'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import { HOST } from './receivers/ports.ts'
import { foundRsyslog, imrelp, rsyslog } from './receivers/rsyslog.ts'
import { foundVersitygw, versitygw } from './receivers/versitygw.ts'

export const BATCH_ENTRIES = 50

export interface OpenReceiver {
  readonly port: number
  /** Ids of its entries, in its order. */
  received(): readonly string[]
  close(): Promise<void>
}

export interface FaultyReceiver {
  readonly name: string
  /** why it cannot be tried here */
  readonly missing: string | undefined
  open(folder: string): Promise<OpenReceiver>
  /** The sink's piece of the configuration, for a receiver at this port of the loopback that was opened in `folder`. */
  sink(port: number, folder: string): object
  /** Entries that may come twice for each failure; 0: it reports what it has. `linger`: all that the sink still keeps, reported or not. */
  readonly inFlight: number | 'linger'
  /** It keeps no order among what it takes. */
  readonly unordered?: true
}

const TOKEN = 'token-5ec2e7'
const SECRET = 'secret-5ec2e7'

const idIn = (line: string) => / id="([^"]+)"/.exec(line)?.[1] ?? `no id: ${line.slice(0, 80)}`
async function openHec(acks = false): Promise<OpenReceiver> {
  const fake = new FakeHec({ tokens: { [TOKEN]: { acks } }, ackDelayMs: 100 })
  // Whatever the line does: of three polls one is cut off, one late.
  fake.ackFaultOf = (poll) => ([{ kind: 'reset' }, { kind: 'slow', ms: 200 }, undefined] as const)[poll % 3]
  const listener = await listenHec(fake, { port: 0 })
  const { port } = listener
  const close = () => listener.close()
  return { port, close, received: () => fake.texts().map((text) => (JSON.parse(text) as { id: string }).id) }
}

const authority = certificate('authority')
const shown = certificate(HOST, authority)

function fileIn(folder: string, name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

/** Ours, shown to every client. */
const agent = certificate('agent', authority)

const tlsIn = (folder: string) => ({
  tls: {
    ca_file: fileIn(folder, 'trusted.pem', authority.cert),
    cert_file: fileIn(folder, 'agent.pem', agent.cert),
    key_file: fileIn(folder, 'agent.key', agent.key),
  },
})

async function openRsyslog(folder: string, transport: 'tcp' | 'tls'): Promise<OpenReceiver> {
  const tls = transport === 'tls' ? { tls: { ...shown, ca: authority.cert } } : {}
  const receiver = await rsyslog({ folder, transport, maxMessageSize: '64k', ...tls })
  await receiver.start()
  const close = () => receiver.stop()
  return { port: receiver.port, close, received: () => receiver.lines().map((line) => idIn(line.replaceAll('\\"', '"'))) } // prettier-ignore
}

async function openImrelp(folder: string, more = ''): Promise<OpenReceiver> {
  const receiver = await imrelp({ folder, more })
  await receiver.start()
  const close = () => receiver.stop()
  return { port: receiver.port, close, received: () => receiver.lines().map(idIn) }
}

function openImrelpTls(folder: string): Promise<OpenReceiver> {
  const cert = fileIn(folder, 'server.pem', shown.cert)
  const key = fileIn(folder, 'server.key', shown.key)
  const ca = fileIn(folder, 'ca.pem', authority.cert)
  // imrelp accepts no client without a certificate: which ones, another test checks.
  const files = `tls.caCert="${ca}" tls.myCert="${cert}" tls.myPrivKey="${key}"`
  return openImrelp(folder, `tls="on" ${files} tls.authMode="certvalid"`)
}

/** Objects are plain files in the gateway's folder. */
async function openS3(folder: string): Promise<OpenReceiver> {
  const server = await versitygw({ folder, buckets: ['audit'], accessKey: 'key', secret: SECRET })
  await server.start()
  const data = join(folder, 'data')
  const objects = () =>
    (readdirSync(join(data, 'audit'), { recursive: true }) as string[])
      .filter((name) => name.endsWith('.gz') && !name.startsWith('.'))
      .map((name) => join(data, 'audit', name))
      .filter((path) => statSync(path).isFile())
  const lines = (path: string) => gunzipSync(readFileSync(path)).toString().split('\n').slice(0, -1)
  const received = () =>
    objects().flatMap((path) => lines(path).map((line) => (JSON.parse(line) as { id: string }).id))
  return { port: server.port, close: () => server.stop(), received }
}

export const receivers: readonly FaultyReceiver[] = [
  {
    name: 'splunk_hec, our fake of the collector',
    missing: undefined,
    open: () => openHec(),
    sink: (port) => ({ type: 'splunk_hec', url: `http://${HOST}:${port}`, token: TOKEN }),
    inFlight: BATCH_ENTRIES,
  },
  {
    name: 'splunk_hec with acknowledgements, our fake of the collector',
    missing: undefined,
    open: () => openHec(true),
    sink: (port) => ({
      ...{ type: 'splunk_hec', url: `http://${HOST}:${port}`, token: TOKEN },
      ...{ acks: true, ack_timeout: '1m', max_in_flight: 2 },
    }),
    inFlight: 2 * BATCH_ENTRIES,
  },
  {
    name: 'syslog over TCP, rsyslog with imptcp',
    missing: foundRsyslog.missing,
    open: (folder) => openRsyslog(folder, 'tcp'),
    sink: (port) => ({ type: 'syslog', address: `tcp://${HOST}:${port}`, tcp_linger: '10m' }),
    inFlight: 'linger',
  },
  {
    name: 'syslog over TLS, rsyslog with imtcp',
    missing: foundRsyslog.missing,
    open: (folder) => openRsyslog(folder, 'tls'),
    sink: (port, folder) => ({
      ...{ type: 'syslog', address: `tls://${HOST}:${port}`, tcp_linger: '10m' },
      ...tlsIn(folder),
    }),
    inFlight: 'linger',
  },
  // Not over UDP: the proxy carries streams alone, and a lost datagram is lost.
  {
    name: 'syslog over RELP, rsyslog with imrelp',
    missing: foundRsyslog.missing,
    open: (folder) => openImrelp(folder),
    sink: (port) => ({ type: 'syslog', address: `relp://${HOST}:${port}` }),
    inFlight: BATCH_ENTRIES,
  },
  {
    name: 'syslog over RELP and TLS, rsyslog with imrelp',
    missing: foundRsyslog.missing,
    open: openImrelpTls,
    sink: (port, folder) => ({
      ...{ type: 'syslog', address: `relp+tls://${HOST}:${port}` },
      ...tlsIn(folder),
    }),
    inFlight: BATCH_ENTRIES,
  },
  {
    name: 's3, versitygw',
    missing: foundVersitygw.missing,
    open: openS3,
    sink: (port) => ({
      ...{ type: 's3', bucket: 'audit', endpoint: `http://${HOST}:${port}`, force_path_style: true },
      ...{ access_key_id: 'key', secret_access_key: SECRET, rotate: { max_bytes: '8KiB', max_age: '1s' } },
    }),
    inFlight: 0,
    unordered: true,
  },
]
