// The daemon in its process: one app after another behind the same listener and control socket, until a signal.
import { openApp } from '../../app.ts'
import type { App } from '../../app.ts'
import { checkApart } from '../../journal/check-apart.ts'
import { untilAborted } from '../../model/abort.ts'
import { ConnectorError } from '../../model/errors.ts'
import { Front } from './front.ts'
import type { CurrentSetup, NextSetup, Setup } from './setup.ts'

const never: NextSetup = () => new Promise(() => undefined)

interface DaemonOptions {
  /** of the world */
  readonly journalCheck?: string | undefined
  /** absent: the first is the only one */
  readonly nextSetup?: NextSetup
  /** is told where the status page is */
  readonly started?: (url: string) => void
  /** is told of each later setup, before its app is opened */
  readonly takesOver?: (setup: Setup) => void
}

/** Runs until `signal` aborts. Rejects with what stopped the daemon, once everything is closed. */
export async function runDaemon(
  first: Setup,
  signal: AbortSignal,
  { journalCheck: program, nextSetup = never, started, takesOver }: DaemonOptions = {},
): Promise<void> {
  const isToldToStop = () => signal.aborted
  // Reading all of a large journal again at each reload would leave probes and signals without an answer meanwhile.
  const { path } = first.config.journal
  const open = await checkApart({ path, program, log: first.outside.log }, signal)
  if (isToldToStop()) return
  let app = await openApp(first.config, first.outside, { once: false }, open)
  const front = new Front(() => app)
  try {
    // Opening may take long, and nothing is started for somebody who has told it to stop meanwhile: no batch goes out for nothing.
    if (isToldToStop()) {
      first.outside.log.info('Stopped before anything had begun')
      return
    }
    await front.open(first)
    started?.(front.url)
    for (let setup: Setup | undefined = first; setup && !isToldToStop();) {
      const next: Setup | undefined = await untilNext({ app, front, setup }, nextSetup, signal)
      if (next) {
        await front.holdFor(async () => {
          // The journal has one owner at a time: what is under way is finished before the next opens it.
          await app.stop()
          if (isToldToStop()) return
          const { startedAt } = app.board
          takesOver?.(next)
          app = await openApp(next.config, next.outside, { once: false, startedAt }, open)
        })
      }
      setup = next
    }
  } finally {
    // Probes and commands are answered to the last: only then do they close.
    front.isReady = false
    try {
      await app.stop()
    } finally {
      // An open listener would keep the process alive, and nothing works in it any more.
      await front.close()
    }
  }
}

interface Served {
  readonly app: App
  readonly front: Front
  readonly setup: Setup
}

/** Runs one app until the next setup takes over or the signal comes (undefined). Rejects with what stopped it. */
async function untilNext(
  { app, front, setup }: Served,
  nextSetup: NextSetup,
  signal: AbortSignal,
): Promise<Setup | undefined> {
  const over = new AbortController()
  const running = app.run().then(() => undefined)
  front.isReady = true
  const current: CurrentSetup = {
    ...setup,
    makeWayFor: async (next) => {
      await refuseLoss(app)
      await front.move(next)
    },
    tellRefused: (error) => app.board.configRefused(error),
  }
  const ended = AbortSignal.any([signal, over.signal])
  const next = nextSetup(current, ended)
  // Told to stop, it rejects, and nobody listens any more.
  next.catch(() => undefined)
  try {
    return await Promise.race([running, untilAborted(ended), next])
  } finally {
    over.abort()
  }
}

/** The next app would begin a journal of its own, and read and send everything again. */
async function refuseLoss({ journal }: App): Promise<void> {
  const lost = await journal.lost()
  if (lost !== undefined) throw new ConnectorError('config_invalid', `journal.path: ${lost}`)
}
