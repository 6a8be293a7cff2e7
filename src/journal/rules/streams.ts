// The small number that represents a source of a workspace in every table, and the reports on
// workspaces and sinks that came or left.
import type { ConfiguredWorkspace, StateChange } from '../../contracts/journal.ts'
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

/** State entry of a workspace with pages that left the configuration. */
export const LEFT = 'workspace_left:'
/** State entry of a configured workspace: its first page may land much later. */
export const MET = 'workspace_met:'

/**
 * Reports workspaces that are new to the journal, and known ones that left the configuration: a
 * renamed one is both. With an empty journal all are new, and nothing is reported. `known`: with
 * pages; `noted`: the state entries that are there. Call `report` once the change has landed.
 */
export function workspaceReport(
  configured: readonly ConfiguredWorkspace[],
  known: readonly string[],
  noted: readonly string[],
): { readonly change: StateChange; readonly report: (log: Log) => void } {
  const isThere = new Set(configured.map(({ name }) => name))
  const left = known.filter((name) => !isThere.has(name))
  const expected = [...configured.map(({ name }) => MET + name), ...left.map((name) => LEFT + name)]
  const add = expected.filter((name) => !noted.includes(name))
  const drop = noted.filter((name) => !expected.includes(name))
  const report = (log: Log) => {
    for (const workspace of configured)
      if (add.includes(MET + workspace.name) && known.length > 0 && !known.includes(workspace.name))
        logNewWorkspace(log, workspace)
    for (const name of left) if (add.includes(LEFT + name)) logLeftWorkspace(log, name)
  }
  return { change: { drop, put: add.map((name) => ({ name, value: '' })) }, report }
}

function logNewWorkspace(log: Log, { name: workspace, starts }: ConfiguredWorkspace): void {
  log.info(
    'New workspace: reading from its configured start. A renamed workspace counts as new, and is sent again',
    { workspace, ...starts },
  )
}

function logLeftWorkspace(log: Log, workspace: string): void {
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
