// The small number that represents a source of a workspace in every table, and the reports on
// workspaces and sinks that came or left.
import type { ConfiguredWorkspace } from '../../contracts/journal.ts'
import type { Stream } from '../../contracts/source.ts'
import type { Log } from '../../core/log.ts'

export class StreamIds {
  readonly #ids = new Map<string, number>()
  readonly #streams = new Map<number, Stream>()

  find(stream: Stream): number | undefined {
    return this.#ids.get(nameOf(stream))
  }

  stream(id: number): Stream {
    const stream = this.#streams.get(id)
    if (stream === undefined) throw new Error(`The journal has no source ${id}`)
    return stream
  }

  /** Call once its row has landed. */
  remember(id: number, { workspace, source }: Stream): number {
    this.#ids.set(nameOf({ workspace, source }), id)
    this.#streams.set(id, { workspace, source })
    return id
  }
}

function nameOf({ workspace, source }: Stream): string {
  return `${workspace} ${source}`
}

// What an operator reads about workspaces and sinks that came or left, each once.

export function logNewWorkspace(log: Log, { name: workspace, starts }: ConfiguredWorkspace): void {
  log.info(
    'New workspace: reading from its configured start. A renamed workspace counts as new, and is sent again',
    { workspace, ...starts },
  )
}

export function logLeftWorkspace(log: Log, workspace: string): void {
  log.warn(
    'A workspace was removed from the configuration and is no longer read. Under the same name it would continue where it was; under another name it is new',
    { workspace },
  )
}

export function logNewSink(log: Log, sink: string, entries: number): void {
  log.info('New sink: it begins with the oldest entry that is still kept', { sink, entries })
}

export function logReturnedSink(log: Log, sink: string): void {
  log.warn(
    'A sink is in the configuration again, but entries that it had not acknowledged were dropped meanwhile: send them with auditferry replay',
    { sink },
  )
}

export function logLeftSink(log: Log, sink: string, entries: number): void {
  log.warn('A sink left the configuration: what it had not acknowledged is no longer kept for it', {
    sink,
    entries,
  })
}
