// The configuration of a seed: what its workspace reads, and its sinks.
import { join } from 'node:path'
import { configSchema } from '../../src/config/schema.ts'
import { hecBatchEntries, HOUR_MS } from './scenario.ts'
import type { Scenario } from './scenario.ts'

export const API_KEY = 'api-key-that-nobody-may-see'
export const HEC_TOKEN = 'hec-token-that-nobody-may-see'
const S3_SECRET = 's3-secret-that-nobody-may-see'
export const secrets = [API_KEY, HEC_TOKEN, S3_SECRET]
export const FILE_PATH = '/out/entries.ndjson'
const usualSources = ['audit', 'history.usage', 'vault.projects']

/** What a sink wants. */
export function sourcesOf({ areas }: Scenario, sink: string): readonly string[] {
  return areas?.history?.queryAt.includes(sink) === true ? [...usualSources, 'history.query'] : usualSources
}

/** What a workspace reads beside its audit log. */
function areaConfig({ areas, startAt }: Scenario) {
  const history = areas?.history
  const span = history?.startSpanMs
  return {
    ...(areas?.vault ? { vault: { projects: true, interval: areas.vault.interval } } : {}),
    ...(history
      ? {
          history: {
            version: history.version,
            ...(history.v1UntilMs === undefined
              ? {}
              : { v1_until: new Date(history.v1UntilMs).toISOString().slice(0, 10) }),
            query: history.query,
            interval: history.interval,
            start: span === undefined ? 'earliest' : new Date(startAt - span).toISOString(),
            lookback: `${history.rereadMs / HOUR_MS}h`,
          },
        }
      : {}),
  }
}

/** Replicas have no file and no standard output in common: there the archive is a bucket. */
export type ArchiveType = 'file' | 's3'

function fileSink({ batchEntries, rotateBytes }: Scenario) {
  return {
    ...{ type: 'file', path: FILE_PATH, batch: { max_entries: batchEntries } },
    ...(rotateBytes ? { rotate: { max_bytes: rotateBytes, keep: 1000 } } : {}),
  }
}

function bucketSink({ rotateBytes }: Scenario) {
  return {
    ...{ type: 's3', endpoint: 'https://s3.test', bucket: 'logs', force_path_style: true },
    ...{ access_key_id: 'AK', secret_access_key: S3_SECRET, compression: 'none' },
    rotate: { max_age: '1m', ...(rotateBytes ? { max_bytes: rotateBytes } : {}) },
  }
}

function splunkSink(scenario: Scenario) {
  const { acks } = scenario
  return {
    type: 'splunk_hec',
    ...(acks?.endpoints === 2
      ? { urls: ['https://hec.test:8088', 'https://hec.test:8089'] }
      : { url: 'https://hec.test:8088' }),
    token: HEC_TOKEN,
    compression: 'none',
    ...(acks ? { acks: acks.acks, max_in_flight: acks.maxInFlight, ack_timeout: acks.timeout } : {}),
    batch: { max_entries: hecBatchEntries(scenario) },
  }
}

export function configOf(scenario: Scenario, folder: string, archive: ArchiveType) {
  const { journalBytes, interval, activity, start, batchEntries } = scenario
  const wants = (sink: string) => {
    const sources = sourcesOf(scenario, sink)
    return sources === usualSources ? {} : { sources }
  }
  const isFile = archive === 'file'
  return configSchema.parse({
    journal: { path: join(folder, 'auditferry.db'), max_bytes: journalBytes, keep_delivered: '1MiB' },
    workspaces: [
      {
        name: 'acme',
        base_url: 'https://api.test',
        api_key: API_KEY,
        audit: { interval, activity, start },
        ...areaConfig(scenario),
      },
    ],
    sinks: [
      { name: 'archive', ...(isFile ? fileSink(scenario) : bucketSink(scenario)), ...wants('archive') },
      { name: 'splunk', ...splunkSink(scenario), ...wants('splunk') },
      ...(isFile ? [{ name: 'console', type: 'stdout', batch: { max_entries: batchEntries } }] : []),
    ],
  })
}
