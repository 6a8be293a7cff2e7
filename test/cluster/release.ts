// One release in a namespace of its own, with a workspace to read and three receivers: a file on its volume, a bucket, a collector.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { listenMock } from '../../src/mock/listen.ts'
import { openMock } from '../../src/mock/mock.ts'
import type { Mock } from '../../src/mock/mock.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { FakeHec, listenHec } from '../fakes/hec.ts'
import { openS3Server } from '../fakes/s3-server.ts'
import { FakeS3 } from '../fakes/s3.ts'
import { TAG } from '../image/engine.ts'
import { kubectl, reachable } from './cluster.ts'

const HEC_TOKEN = 'hec-token-of-the-cluster'
const S3_SECRET = 's3-secret-of-the-cluster'

export interface Setup {
  readonly namespace: string
  readonly values: string
  readonly mock: Mock
  /** ids that each receiver has, repeats too */
  received(): Record<'file' | 'bucket' | 'collector', string[]>
  /** Rewrites the Secret with this key of the API. */
  writeSecret(apiKey: string): Promise<void>
  close(): Promise<void>
}

/** The volume is a folder of this machine, for this claim alone. */
function volumeOf(namespace: string, folder: string) {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: namespace },
    spec: {
      capacity: { storage: '10Gi' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: '',
      claimRef: { namespace, name: 'data-auditferry-0' },
      local: { path: folder },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['localhost'] }] },
          ],
        },
      },
    },
  }
}

const [tagRepository = '', tag = ''] = TAG.split(':')
export const image = { repository: tagRepository, tag, pullPolicy: 'Never' }

function valuesOf(urls: { readonly api: string; readonly bucket: string; readonly collector: string }) {
  const secret = (name: string) => `\${file:/run/secrets/auditferry/${name}}`
  const batch = { linger: '200ms' }
  return {
    image,
    config: {
      workspaces: [
        {
          name: 'acme',
          base_url: urls.api,
          allow_insecure: true,
          api_key: secret('api-key'),
          audit: { interval: '2s', start: 'earliest' },
          rate_limits: { audit: 600 },
        },
      ],
      sinks: [
        { name: 'file', type: 'file', path: '/var/lib/auditferry/entries.ndjson', batch },
        {
          ...{ name: 'bucket', type: 's3', bucket: 'logs', region: 'eu-central-1', endpoint: urls.bucket },
          ...{ force_path_style: true, allow_insecure: true, rotate: { max_age: '2s' } },
          ...{ access_key_id: 'id', secret_access_key: secret('s3-secret') },
        },
        {
          ...{ name: 'collector', type: 'splunk_hec', url: urls.collector, token: secret('hec-token') },
          ...{ allow_insecure: true, batch },
        },
      ],
    },
    secrets: { existing: [{ name: 'keys' }] },
    persistence: { storageClass: '-' },
    startupProbe: { periodSeconds: 1 },
    readinessProbe: { periodSeconds: 1 },
  }
}

function idsIn(lines: readonly string[]): string[] {
  return lines.map((line) => (JSON.parse(line) as { id: string }).id)
}

export async function apply(folder: string, name: string, object: unknown): Promise<void> {
  const file = join(folder, `${name}.yaml`)
  writeFileSync(file, stringify(object), { mode: 0o600 })
  await kubectl('apply', '-f', file)
}

/** One that admits only what the chart promises to be. */
export async function makeNamespace(folder: string, namespace: string): Promise<void> {
  const label = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  const named = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: label } }
  await apply(folder, 'namespace', named)
}

/** Everything around the release, and nothing of the release itself. */
export async function openSetup(namespace: string, apiKey: string, folder: string): Promise<Setup> {
  const mock = openMock({
    clock: systemClock,
    workspaces: [{ name: 'acme', keys: [{ key: apiKey }] }],
    traffic: {
      backlog: 2_000,
      entriesPerHour: 36_000,
      since: systemClock.now() - 3_600_000,
      rhythm: 'steady',
    },
    limits: { audit: 0 },
  })
  const s3 = new FakeS3()
  const hec = new FakeHec({ tokens: { [HEC_TOKEN]: { acks: false } } })
  const listeners = [
    await listenMock(mock, { port: 0, host: '127.0.0.1' }),
    await openS3Server(s3),
    await listenHec(hec, { port: 0 }),
  ]
  const ways = await Promise.all(listeners.map(({ url }) => reachable(url)))
  const [api = '', bucket = '', collector = ''] = ways.map(({ url }) => url)
  const volume = join(folder, 'volume')
  mkdirSync(volume, { recursive: true })
  await makeNamespace(folder, namespace)
  await apply(folder, 'volume', volumeOf(namespace, volume))
  const writeSecret = (key: string) =>
    apply(folder, 'secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'keys', namespace },
      stringData: { 'api-key': key, 'hec-token': HEC_TOKEN, 's3-secret': S3_SECRET },
    })
  await writeSecret(apiKey)
  const values = join(folder, 'values.yaml')
  writeFileSync(values, stringify(valuesOf({ api, bucket, collector })))
  const file = join(volume, 'entries.ndjson')
  return {
    ...{ namespace, values, mock, writeSecret },
    received: () => ({
      file: existsSync(file) ? idsIn(readFileSync(file, 'utf8').split('\n').slice(0, -1)) : [],
      bucket: idsIn(s3.lines),
      collector: idsIn(hec.indexed.map(({ event }) => Buffer.from(event).toString())),
    }),
    close: async () => {
      for (const way of ways) await way.close()
      for (const listener of listeners) await listener.close()
    },
  }
}
