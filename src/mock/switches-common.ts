// Switches of the audit log area, and those that hold in every area.
import type { SwitchTable } from './switch-spec.ts'

export const commonSwitches = {
  from: {
    values: ['exclusive', 'inclusive'],
    default: 'exclusive',
    says: 'is the entry whose id is `from` in the page',
  },
  search_body: {
    values: ['wrapped', 'bare'],
    default: 'wrapped',
    says: '`search` answers {"log": entry} or the entry',
  },
  latest_body: {
    values: ['wrapped', 'bare'],
    default: 'wrapped',
    says: '`latest` answers {"log": entry} or the entry',
  },
  none: {
    values: ['404', 'null', 'empty_object', 'empty_body', '204'],
    default: '404',
    says: 'what `search`, `earliest` and `latest` answer when there is no such entry; with 204 an empty page does too',
  },
  gone: {
    values: ['404', '400', '410', '422', 'empty', '204'],
    default: '404',
    says: 'what a page answers whose `from` is unknown or purged',
  },
  page_cap: { values: 'number', default: 0, says: 'most entries a page, whatever `take` asks; 0 for none' },
  rate_scope: { values: ['key', 'workspace'], default: 'key', says: 'who shares one rate limit' },
  count_refused: {
    values: ['no', 'yes'],
    default: 'no',
    says: 'does a request answered 429 count against the limit',
  },
  retry_after: { values: ['none', 'seconds', 'date'], default: 'none', says: 'the hint that a 429 carries' },
  self_audit: {
    values: ['all', 'pages', 'off'],
    default: 'all',
    says: 'which calls are themselves entries: all, all but the audit log’s searches, none',
  },
  self_audit_after: {
    values: 'duration',
    default: 0,
    says: 'how long after the answer that entry becomes visible',
  },
  user_agent: {
    values: ['sent', 'generic'],
    default: 'sent',
    says: 'the `user_agent` recorded of a call',
  },
  date_header: { values: ['on', 'off'], default: 'on', says: 'do answers carry `Date`' },
  visible_after: {
    values: 'duration',
    default: 0,
    says: 'how long after its own time each traffic entry becomes visible',
  },
  late_by: {
    values: 'duration',
    default: 600_000,
    says: 'the most that an entry of the fault `late` is late',
  },
  retention: { values: 'duration', default: 0, says: 'entries older than this are purged; 0s keeps all' },
  clock_skew_ms: {
    values: 'number',
    default: 0,
    says: 'how far the server’s clock is ahead of the true one',
  },
  transit: {
    values: 'duration',
    default: 0,
    says: 'the longest a request travels before it counts; seeded, 0 to this',
  },
  latency: { values: 'duration', default: 0, says: 'how long an answer takes' },
  gzip: { values: ['never', 'asked', 'always'], default: 'never', says: 'when bodies are compressed' },
  slow_pause: {
    values: 'duration',
    default: 1000,
    says: 'the pause between the 20 pieces of the fault `slow`',
  },
  stall: {
    values: 'duration',
    default: 3_600_000,
    says: 'how long the fault `stalled` is silent before it cuts',
  },
  deep_levels: { values: 'number', default: 4000, says: 'levels of the fault `too_deep`' },
  huge_bytes: { values: 'number', default: 17 * 2 ** 20, says: 'size of the fault `huge`' },
} as const satisfies SwitchTable
