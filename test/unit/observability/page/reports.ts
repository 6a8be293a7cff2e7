// Reports for the page: a healthy one to start with, and a way to change any of its parts.
import type { SinkStatus, SourceStatus, StatusReport } from '../../../../src/observability/status.ts'

export const calmSource: SourceStatus = {
  name: 'audit',
  state: 'idle',
  last_success_at: '2026-11-21T09:59:46.000Z',
  caught_up_at: '2026-11-21T09:59:46.000Z',
  head_at: '2026-11-21T09:59:40.000Z',
  cursor_at: '2026-11-21T09:59:40.000Z',
  lag_seconds: 0,
  progress: null,
  new_entries: 4663,
  filtered_entries: 0,
  gaps: 0,
  last_gap_at: null,
  findings: 0,
  error: null,
}

export const calmSink: SinkStatus = {
  name: 'archive',
  type: 'file',
  assurance: 'stored',
  state: 'idle',
  pending_entries: 0,
  lag_seconds: 0,
  last_success_at: '2026-11-21T09:59:46.000Z',
  accepted_entries: 4663,
  filtered_entries: 0,
  dead_letters: 0,
  error: null,
}

export const calm: StatusReport = {
  version: '1.2.3',
  started_at: '2026-11-20T10:00:00.000Z',
  configured_at: '2026-11-20T10:00:00.000Z',
  reported_at: '2026-11-21T10:00:00.000Z',
  ok: true,
  summary: 'All caught up: last delivery 14 s ago',
  workspaces: [{ name: 'acme', sources: [calmSource], rate_limits: [{ area: 'audit', used: 3, limit: 60 }] }],
  sinks: [calmSink],
  journal: {
    ...{ entries: 0, bytes: 0, capacity_bytes: 2 ** 31, paused: false, lost: null },
    ...{ quarantined: 0, gaps: 0, findings: 0, unconfigured: [] },
  },
  findings: [],
  backfills: [],
  replays: [],
  errors: [],
  config_refused_at: null,
  config_refused_why: null,
  warnings: [],
  history: {
    step_seconds: 30,
    read: Array.from({ length: 120 }, (_, i) => i % 7),
    delivered: Array.from({ length: 120 }, (_, i) => i % 7),
    pending: Array.from({ length: 120 }, () => 0),
  },
}

export function withSource(change: Partial<SourceStatus>): StatusReport {
  return { ...calm, workspaces: [{ name: 'acme', sources: [{ ...calmSource, ...change }] }] }
}

export function withSink(change: Partial<SinkStatus>): StatusReport {
  return { ...calm, sinks: [{ ...calmSink, ...change }] }
}
