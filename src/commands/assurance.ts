// How sure a configured sink's word would be: asked of the sink itself, opened with a world in which nothing happens.
import type { SinkConfig } from '../config/schema.ts'
import type { Assurance, Receiver } from '../model/sink.ts'
import type { SinkDeps } from '../model/sink-kind.ts'
import { sinkKinds } from '../sinks/index.ts'

function nothing(): never {
  throw new Error('a sink that was only asked for its assurance began to work')
}

const inert: SinkDeps = {
  clock: { now: () => 0, elapsed: () => 0, sleep: nothing },
  random: () => 0,
  log: { debug: nothing, info: nothing, warn: nothing, error: nothing, with: () => inert.log },
  disk: {
    open: nothing,
    exists: nothing,
    look: nothing,
    rename: nothing,
    remove: nothing,
    syncFolder: nothing,
  },
  transport: () => nothing,
  connect: nothing,
  datagrams: nothing,
  print: nothing,
  compress: nothing,
  hostOf: () => 'localhost',
  spoolFolder: '',
}

/** To open connects to nothing (SinkKind): there is nothing to close either. */
export function assuranceOf(config: SinkConfig): Assurance {
  const kind: { open(name: string, options: never, deps: SinkDeps): Receiver } = sinkKinds[config.type]
  return kind.open(config.name, config as never, inert).assurance
}
