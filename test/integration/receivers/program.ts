// A receiver before it runs: which program, in which image or from where on this machine, and the two ways to start it.
import { openContainers } from './container.ts'
import type { Port } from './ports.ts'
import { startProcess } from './process.ts'

/** Described once for each receiver. */
export interface Program {
  readonly name: string
  readonly image: {
    /** environment variable that names another image */
    readonly variable: string
    readonly name: string
    /** the program in it, and what always comes first */
    readonly command: readonly string[]
  }
  readonly local: {
    there(): boolean
    readonly command: readonly string[]
    readonly env?: Readonly<Record<string, string>>
    /** a command that brings it to this machine */
    readonly bring: string
  }
}

export interface Start {
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** All that it reads and writes; of the same name inside a container. */
  readonly folder: string
  readonly port: Port
}

export interface Running {
  /** Undefined while it runs; otherwise its output at its end. */
  ended(): Promise<string | undefined>
  /** It listens on its port, itself and not only a proxy before it. */
  listening(): Promise<boolean>
  stop(signal: NodeJS.Signals): Promise<void>
}

/** A receiver that is available here, or why not. */
export interface Found {
  readonly name: string
  /** why it is not available, in words */
  readonly missing: string | undefined
  /** The address where it has to listen to be reached: in a container with ports of its own that is everywhere. */
  readonly listenAt: string
  start(start: Start): Promise<Running>
}

type Wanted = 'auto' | 'containers' | 'local'

function wanted(): Wanted {
  const said = process.env['AUDITFERRY_RECEIVERS'] ?? 'auto'
  if (said === 'auto' || said === 'containers' || said === 'local') return said
  throw new Error(`AUDITFERRY_RECEIVERS is ${said}: expected auto, containers or local`)
}

/** As a container if an engine answers and has the image or gets it, otherwise as a process of this machine. Reports loudly when neither is available. */
export async function find({ name, image, local }: Program, want = wanted()): Promise<Found> {
  const why: string[] = []
  if (want !== 'local') {
    const containers = await openContainers(process.env[image.variable] ?? image.name, image.command)
    if (typeof containers !== 'string') return { name, missing: undefined, ...containers }
    // A run that names an image and wants containers alone has it ready: there is nothing to skip.
    if (want === 'containers' && process.env[image.variable] !== undefined)
      throw new Error(`${name} as a container: ${containers}`)
    why.push(containers)
  }
  if (want !== 'containers') {
    if (local.there())
      return {
        ...{ name, missing: undefined, listenAt: '127.0.0.1' },
        start: async (start) => startProcess(local.command, local.env ?? {}, start),
      }
    why.push(`it is not on this machine (${local.bring} brings it)`)
  }
  const missing = why.join('; ')
  process.stderr.write(`\nSKIPPED: ${name}: ${missing}.\n\n`)
  const start = () => Promise.reject(new Error(`${name} was asked for, and is not to be had: ${missing}`))
  return { name, missing, listenAt: '', start }
}
