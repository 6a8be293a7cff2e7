// Standard output as a sink: one line per entry, as fast as the reader of the pipe accepts them.
import { z } from 'zod'
import { ConnectorError, errnoOf, isDiskFull, isReaderGone } from '../core/errors.ts'
import type { Sink } from '../contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../contracts/sink-kind.ts'
import { LF } from '../core/bytes.ts'
import { framedBytes, lineFrame } from './kit/body.ts'

const options = z.strictObject({})

function printError(cause: unknown): ConnectorError {
  if (cause instanceof ConnectorError) return cause
  const code = errnoOf(cause)
  if (isDiskFull(code))
    return new ConnectorError(
      'disk_full',
      `cannot write to standard output (${code}): free space at its target; delivery resumes automatically`,
      { cause },
    )
  const next = `(${code}); entries stay in the journal; start Auditferry again with a program that reads its output`
  // Only a person can start the reader again: a single run must not wait for one.
  if (isReaderGone(code))
    return new ConnectorError('misconfigured', `standard output: its reader is gone ${next}`, { cause })
  return new ConnectorError('unreachable', `standard output: it cannot be written ${next}`, { cause })
}

// Bytes in a pipe's buffer are lost if the reader ends.
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
      if (lines.count === 0) return { acknowledged: 0, rejected: [] }
      const bytes = framedBytes(lines)
      try {
        // An earlier try may have ended within a line: the LF separates it from this one.
        await deps.print(possibleDuplicate ? Buffer.concat([Uint8Array.of(LF), bytes]) : bytes)
      } catch (error) {
        throw printError(error)
      }
      return { acknowledged: lines.count, rejected: [] }
    },
    async check() {
      return [{ what: 'standard output', ok: true, message: 'always open; nothing to check' }]
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
