// Switches of the assistant area: what the specification leaves open there.
import type { SwitchTable } from './switch-spec.ts'

export const assistantSwitches = {
  assistant_accepts: {
    values: ['both', 'json', 'form'],
    default: 'both',
    says: 'bodies that a completion may come in: JSON, or a form (URL-encoded or multipart)',
  },
  assistant_file_field: {
    values: ['file', 'files', 'document', 'attachment'],
    default: 'file',
    says: 'the name of the part that holds the file',
  },
  assistant_body: {
    values: ['response', 'event', 'text'],
    default: 'response',
    says: 'a whole reply: {"response": …}, the whole query event, or plain text',
  },
  assistant_stream_body: {
    values: ['sse', 'ndjson', 'text'],
    default: 'sse',
    says: 'a streamed reply: server-sent events, a JSON object a line, or plain text in pieces',
  },
  assistant_visible_after: {
    values: 'duration',
    default: 0,
    says: 'how long after the answer its usage and query events are in the history',
  },
} as const satisfies SwitchTable
