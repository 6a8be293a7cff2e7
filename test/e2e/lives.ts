// The lives of the built program in the kill suites: ones that end by SIGKILL, and a last one without faults.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { faultNames } from '../../src/mock/switches.ts'
import type { Dice } from '../simulation/random.ts'
import type { Built } from './built.ts'
import { startChild, until, untilStarted } from './child.ts'
import type { Child } from './child.ts'
import { Arrivals, shown } from './judge.ts'
import { secrets } from './stage.ts'
import type { Stage } from './stage.ts'
import type { CrashStep } from './steps.ts'

const PATIENCE_MS = 90_000

export interface Death {
  readonly child: Child
  readonly reported: string
}

/** One that has begun to work. */
export async function startDaemon({ main }: Built, { config, env }: Stage): Promise<Child> {
  const daemon = startChild([main, 'run', '--config', config], env)
  await untilStarted(daemon, PATIENCE_MS)
  return daemon
}

/** One in five dies while it starts, the others while they read and send. */
export async function killAtRandom({ main }: Built, stage: Stage, roll: Dice): Promise<Death> {
  const child = startChild([main, 'run', '--config', stage.config], stage.env)
  const starting = roll.chance(0.2)
  const waitMs = starting ? 100 + roll.below(500) : roll.below(1_000)
  if (!starting) await untilStarted(child, PATIENCE_MS)
  await sleep(waitMs)
  child.kill('SIGKILL')
  return { child, reported: `${waitMs} ms after ${starting ? 'its birth' : 'its start'}` }
}

/** Dies when it reaches a step for the `nth` time. */
export async function killAt(
  { crashing }: Built,
  stage: Stage,
  step: CrashStep,
  nth: number,
): Promise<Death> {
  const child = startChild([crashing, stage.config, step, String(nth)], stage.env)
  await until(
    () => child.ending() !== undefined,
    PATIENCE_MS,
    () => `${step} ${nth}: ${child.stderr()}`,
  )
  return { child, reported: `${step}, time ${nth}` }
}

/** So many deaths, one after the other. Returns how each came about, and all that was logged. */
export async function die(
  times: number,
  kill: () => Promise<Death>,
): Promise<{ readonly reported: string; readonly logs: string }> {
  const reported: string[] = []
  let logs = ''
  for (let death = 0; death < times; death++) {
    const { child, reported: how } = await kill()
    expect(await child.ended, `${how}: ${child.stderr()}`).toEqual({ code: null, signal: 'SIGKILL' })
    reported.push(how)
    logs += child.stderr()
  }
  return { reported: reported.join('; '), logs }
}

export function expectNoSecret(logs: string): void {
  for (const secret of secrets) expect(logs).not.toContain(secret)
}

/** Runs the daemon without faults until all entries are in both sinks; then it stops as a service manager would stop it. */
export async function calm({ main }: Built, stage: Stage): Promise<string> {
  const { mock, hec } = stage
  for (const name of faultNames) mock.setFault(name, undefined)
  hec.faultOf = undefined
  hec.ackFaultOf = undefined
  const now = Date.now()
  const wanted = mock.entries().filter(({ atUs, visibleAt }) => atUs < now * 1000 || visibleAt < now)
  const daemon = startChild([main, 'run', '--config', stage.config], stage.env)
  const arrivals = new Arrivals(stage)
  const missing = (arrived: ReadonlySet<string>) => wanted.filter(({ id }) => !arrived.has(id)).length
  await until(
    () => {
      arrivals.look()
      const { archive, splunk } = arrivals
      if (daemon.ending()) return true
      return Math.min(archive.size, splunk.size) >= wanted.length && missing(archive) + missing(splunk) === 0
    },
    PATIENCE_MS,
    () =>
      `of ${wanted.length} entries ${missing(arrivals.archive)} are missing in the file, ${missing(arrivals.splunk)} at the receiver\n${daemon.stderr()}`,
    100,
  )
  if (stage.inPostgres) await readOut(stage, daemon, arrivals)
  const stoppedAt = Date.now()
  daemon.kill('SIGTERM')
  expect(await daemon.ended, daemon.stderr()).toEqual({ code: 0, signal: null })
  expect(Date.now() - stoppedAt).toBeLessThan(10_000)
  if (stage.inPostgres) return daemon.stderr()
  const once = startChild([main, 'run', '--once', '--timeout', '60s', '--config', stage.config])
  expect(await once.ended, once.stderr()).toEqual({ code: 0, signal: null })
  return daemon.stderr() + once.stderr()
}

/** Where no `run --once` reads the rest: the API shows nothing new, and all that it has shown arrives. */
async function readOut(stage: Stage, daemon: Child, arrivals: Arrivals): Promise<void> {
  stage.mock.setFault('error_500', 1)
  await until(
    () => {
      arrivals.look()
      return shown(stage).every(({ id }) => arrivals.archive.has(id) && arrivals.splunk.has(id))
    },
    PATIENCE_MS,
    () => `not all that the API has shown has arrived\n${daemon.stderr()}`,
    100,
  )
}
