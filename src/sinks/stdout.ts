// Standard output as a sink: a line an entry, as fast as the reader behind the pipe takes them.
import { z } from 'zod'
import { ConnectorError, errnoOf, isNoRoom, isReaderGone } from '../core/errors.ts'
import type { Sink } from '../contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../contracts/sink-kind.ts'
import { LF } from '../core/bytes.ts'
import { framedBytes, lineFrame } from './kit/line-frame.ts'

const options = z.strictObject({})

function printError(cause: unknown): ConnectorError {
  if (cause instanceof ConnectorError) return cause
  const code = errnoOf(cause)
  if (isNoRoom(code))
    return new ConnectorError(
      'disk_full',
      `cannot write to standard output (${code}): make room where it leads, and it goes on by itself`,
      { cause },
    )
  const next = `(${code}); entries are kept; start it again with a reader behind it`
  // A reader that left its pipe comes back by a person's hand alone: a single run must not wait for one.
  if (isReaderGone(code))
    return new ConnectorError('misconfigured', `standard output: its reader is gone ${next}`, { cause })
  return new ConnectorError('unreachable', `standard output: it cannot be written ${next}`, { cause })
}

// A pipe's buffer is nobody's disk: what it took may die with the reader.
const assurance = 'sent'

function open(name: string, deps: SinkDeps): Sink {
  return {
    name,
    type: 'stdout',
    assurance,
    frame: lineFrame,
    shape: '',
    async deliver({ lines, possibleDuplicate }, signal) {
      if (signal.aborted) throw new ConnectorError('aborted', 'standard output: stopped before the batch')
      if (lines.count === 0) return { settled: 0, refused: [] }
      const bytes = framedBytes(lines)
      try {
        // What was tried before may have been cut in the middle of a line, which would swallow the first one of these.
        await deps.print(possibleDuplicate ? Buffer.concat([Uint8Array.of(LF), bytes]) : bytes)
      } catch (error) {
        throw printError(error)
      }
      return { settled: lines.count, refused: [] }
    },
    async check() {
      return [{ what: 'standard output', ok: true, message: 'is there by nature; nothing to ask' }]
    },
    async close() {
      // Standard output belongs to the process.
    },
  }
}

export const stdout: SinkKind<typeof options> = {
  options,
  assurance: () => assurance,
  to: () => [],
  open: (name, _options, deps) => open(name, deps),
}
