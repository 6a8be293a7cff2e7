// `quarantine`: lists, shows, drops and exports malformed elements. They are never delivered.
import type { QuarantineRecord } from '../../contracts/records.ts'
import { countText, sizeText } from '../../observability/words.ts'
import { instantText } from '../shared/instants.ts'
import { recordCommands } from './commands.ts'
import type { RecordKind } from './selection.ts'

const factsOf = ({ id, stream, ...rest }: QuarantineRecord) => ({
  id,
  workspace: stream.workspace,
  source: stream.source,
  reason: rest.reason,
  total_bytes: rest.totalBytes,
  sha256: rest.sha256,
  kept_at: new Date(rest.keptAt).toISOString(),
  kept_bytes: rest.keptBytes,
})

const quarantine: RecordKind<QuarantineRecord> = {
  name: 'quarantine',
  noun: (count) => countText(count, 'quarantined elements'),
  texts: {
    none: 'nothing is quarantined',
    unmatched: 'nothing quarantined matches these options',
    nothing: 'nothing quarantined',
    missing: (ids) => `nothing quarantined under ${ids}`,
    lost: 'bytes',
  },
  ask: (journal, query) => journal.quarantined(query),
  rawOf: (journal, id) => journal.quarantinedRaw(id),
  drop: (journal, ids) => journal.dropQuarantined({ ids }),
  head: ['ID', 'SOURCE', 'REASON', 'SIZE', 'KEPT', 'SINCE (UTC)'],
  row: ({ id, stream, reason, totalBytes, keptBytes, keptAt }) => [
    ...[String(id), `${stream.workspace} ${stream.source}`, reason, sizeText(totalBytes)],
    ...[sizeText(keptBytes), instantText(keptAt)],
  ],
  details: (record) => [
    ['id', String(record.id)],
    ['workspace', record.stream.workspace],
    ['source', record.stream.source],
    ['reason', record.reason],
    ['bytes', String(record.totalBytes)],
    ['kept bytes', String(record.keptBytes)],
    ['sha256', record.sha256],
    ['kept since', `${instantText(record.keptAt)} UTC`],
  ],
  facts: factsOf,
  content: (raw) => raw,
  // Malformed bytes may be anything, hence base64.
  line(record, raw) {
    const line = { ...factsOf(record), base64: Buffer.from(raw).toString('base64') }
    return Buffer.from(`${JSON.stringify(line)}\n`)
  },
  sumOf: ({ stream, reason }) => ({ ...stream, reason }),
  bytesOf: ({ keptBytes }) => keptBytes,
  bytes: { name: 'kept_bytes', title: 'KEPT' },
}

export const {
  list: listQuarantine,
  show: showQuarantine,
  drop: dropQuarantine,
  export: exportQuarantine,
} = recordCommands(quarantine)
